"""What a worker is started with."""

import socket
from typing import NamedTuple

import msgspec

from quiver.app.config import Config
from quiver.system.shared_counts import SharedCounts
from quiver.system.shared_note import SharedMemoryNote
from quiver.system.socket_inbox import SocketInbox

CLIENT, LINK = b"C", b"L"
"""The first byte of what comes with a passed socket: a client of the native protocol, whose bytes follow; a link."""


class WorkerSeat(NamedTuple):
    """Inherited from the supervisor. A worker that is started again gets the same."""

    worker: int
    workers: int
    lock_fd: int
    """The lock of the data directory."""
    native: list[socket.socket]
    http: socket.socket
    queen: socket.socket | None
    inboxes: tuple[SocketInbox, ...]
    """Of every worker: others pass sockets to it."""
    counters: SharedMemoryNote
    """What workers have counted, also those that are gone."""
    connections: SharedCounts
    """How many each worker has."""

    @property
    def inbox(self) -> SocketInbox:
        return self.inboxes[self.worker]

    def pass_client(self, worker: int, sock: socket.socket, read_before: bytes) -> None:
        """OSError when that worker takes no more; ValueError when too much was read."""
        self.inboxes[worker].pass_socket(sock, CLIENT + read_before)

    async def dial(self, worker: int) -> socket.socket:
        """A link to another worker, which takes its end when it gets to it, also after it was started again."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.inboxes[worker].pass_socket(theirs, LINK)
            except BaseException:
                ours.close()
                raise
        return ours


def share_of(config: Config, workers: int) -> Config:
    """The configuration of one worker: what is configured for all of them, divided."""
    return msgspec.structs.replace(
        config,
        memory_budget=config.memory_budget // workers,
        max_open_files=-(-config.max_open_files // workers),
    )
