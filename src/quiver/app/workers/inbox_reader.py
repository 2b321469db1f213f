"""Takes the sockets that other workers pass to this one."""

import asyncio
import logging
import socket
from collections.abc import Callable

from quiver.app.workers.seat import CLIENT
from quiver.system.socket_inbox import SocketInbox

_log = logging.getLogger(__name__)
_TAKEN_PER_TURN = 64


ServeClient = Callable[[socket.socket, bytes], None]
"""Gets a client's socket with what was read from it."""
AcceptLink = Callable[[socket.socket], None]
"""Gets a link of another worker."""


class InboxReader:
    """Links are accepted from `start` on, clients from `serve_clients` on: this worker may still be opening its data,
    and those that come before wait.
    """

    def __init__(self, inbox: SocketInbox) -> None:
        self._inbox = inbox
        self._accept_link: AcceptLink
        self._serve_client: ServeClient | None = None
        self._clients: list[tuple[socket.socket, bytes]] = []
        self._is_reading = False

    def start(self, accept_link: AcceptLink) -> None:
        self._accept_link, self._is_reading = accept_link, True
        asyncio.get_running_loop().add_reader(self._inbox.fileno(), self._take)

    def serve_clients(self, serve_client: ServeClient) -> None:
        self._serve_client = serve_client
        clients, self._clients = self._clients, []
        for sock, read_before in clients:
            self._on_client(sock, read_before)

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
            if note[:1] == CLIENT:
                self._on_client(sock, note[1:])
            else:
                self._accept_link(sock)

    def _on_client(self, sock: socket.socket, read_before: bytes) -> None:
        if self._serve_client is None:
            self._clients.append((sock, read_before))
            return
        try:
            self._serve_client(sock, read_before)
        except OSError:  # the client is gone
            sock.close()
