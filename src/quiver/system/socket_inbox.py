"""Sockets that processes of one machine pass to each other."""

import socket
from typing import NamedTuple

NOTE_BYTES = 128 * 1024
"""The most that may be sent with a socket."""


class PassedSocket(NamedTuple):
    socket: socket.socket
    note: bytes


class SocketInbox:
    """What others pass to one process. It is made before the fork, and all processes inherit both of its ends.

    So it outlives the process that takes from it: what is passed meanwhile waits for the next one.
    """

    def __init__(self) -> None:
        self._taking, self._passing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._taking.setblocking(False)
        self._passing.setblocking(False)

    def fileno(self) -> int:
        """Becomes readable when there is something to take."""
        return self._taking.fileno()

    def pass_socket(self, sock: socket.socket, note: bytes) -> None:
        """The caller closes its own copy. OSError when too much waits to be taken."""
        if not 0 < len(note) <= NOTE_BYTES:
            raise ValueError(f"a note has 1 to {NOTE_BYTES} bytes")
        socket.send_fds(self._passing, [note], [sock.fileno()])

    def take(self) -> PassedSocket | None:
        """None when there is nothing. OSError when this process may not open more files: that socket is closed."""
        try:
            note, descriptors, _, _ = socket.recv_fds(self._taking, NOTE_BYTES, 1)
        except (BlockingIOError, InterruptedError):
            return None
        if not descriptors:
            raise OSError("a socket was passed that could not be opened: too many open files")
        return PassedSocket(socket.socket(fileno=descriptors[0]), note)

    def close(self) -> None:
        self._taking.close()
        self._passing.close()
