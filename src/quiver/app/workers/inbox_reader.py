"""Takes the sockets that other workers pass to this one."""

import asyncio
import logging
import socket
from collections.abc import Callable

from quiver.app.workers.seat import CLIENT
from quiver.system.socket_inbox import SocketInbox

_log = logging.getLogger(__name__)
_TAKEN_PER_TURN = 64


class InboxReader:
    """`serve_client` gets a client's socket with what was read from it, `accept_link` a link of another worker."""

    def __init__(
        self,
        inbox: SocketInbox,
        serve_client: Callable[[socket.socket, bytes], None],
        accept_link: Callable[[socket.socket], None],
    ) -> None:
        self._inbox, self._serve_client, self._accept_link = inbox, serve_client, accept_link
        self._is_reading = False

    def start(self) -> None:
        self._is_reading = True
        asyncio.get_running_loop().add_reader(self._inbox.fileno(), self._take)

    def stop(self) -> None:
        """What is passed from now on waits for the worker that follows this one."""
        if self._is_reading:
            self._is_reading = False
            asyncio.get_running_loop().remove_reader(self._inbox.fileno())

    def _take(self) -> None:
        for _ in range(_TAKEN_PER_TURN):
            try:
                passed = self._inbox.take()
            except OSError as error:
                _log.warning("a connection that another worker passed on is lost: %s", error)
                continue
            if passed is None:
                return
            sock, note = passed
            try:
                if note[:1] == CLIENT:
                    self._serve_client(sock, note[1:])
                else:
                    self._accept_link(sock)
            except OSError:
                sock.close()
