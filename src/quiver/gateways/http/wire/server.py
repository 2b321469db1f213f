"""The listening port: its connections, and the requests that are being handled."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, ClassVar

from quiver.gateways.http.wire.connection import HttpConnection
from quiver.gateways.http.wire.exchange import Exchange
from quiver.gateways.shared_listener import SharedListener, WorkerShare
from quiver.model.errors import Overloaded, QuiverError
from quiver.model.limits import CONNECTIONS
from quiver.system.memory_budget import MemoryBudget
from quiver.system.network import arrivals_read
from quiver.telemetry.gateway_counts import GatewayCounts

_CHECK_EVERY_S = 1.0
Begin = Callable[[Exchange], Coroutine[Any, Any, None] | None]


class HttpServer:
    """Serves one port. `begin` handles a request, or returns what is to be awaited for it; it raises nothing."""

    max_connections: ClassVar[int] = CONNECTIONS

    def __init__(
        self,
        begin: Begin,
        budget: MemoryBudget,
        now_ms: Callable[[], int],
        served: GatewayCounts | None = None,
        answer_overdue: Callable[[], None] | None = None,
    ) -> None:
        self.budget = budget
        self.date_line = b""
        self.connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that are being handled; also those whose clients have left."""
        self._served_counts = served
        self._begin = begin
        self._answer_overdue = answer_overdue
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._listening: asyncio.Server | SharedListener | None = None
        self._connecting: set[asyncio.Task[object]] = set()
        self._checking: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    async def start(
        self,
        listener: socket.socket,
        stall_seconds: float,
        least_bytes_per_second: float,
        share: WorkerShare | None = None,
    ) -> None:
        """With a `share`, other workers accept from the same listener."""
        self._set_date()
        if share is None:
            self._listening = await self._loop.create_server(lambda: HttpConnection(self), sock=listener)
        else:
            self._listening = SharedListener(listener, share, self._connected)
        self._checking = self._loop.create_task(self._check(stall_seconds, least_bytes_per_second))

    def _connected(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        connecting = self._loop.connect_accepted_socket(lambda: HttpConnection(self), sock)
        task = self._loop.create_task(connecting)
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def stop(self, grace: float) -> None:
        """Takes no more connections and requests, lets those under way finish for so long, then ends them."""
        if self._listening is not None:
            self._listening.close()
        for connection in list(self.connections):
            connection.stop()
        await self._wait_for_end(grace)
        for connection in list(self.connections):
            connection.abort()
        for task in self.tasks:
            task.cancel()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, *self.tasks, return_exceptions=True)

    async def _wait_for_end(self, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                while self.connections or self.tasks:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            pass

    def opened(self, connection: HttpConnection) -> QuiverError | None:
        self.connections.add(connection)
        self._count_connections()
        if len(self.connections) > self.max_connections:
            return Overloaded(problem=f"{self.max_connections} HTTP connections are open")
        return None

    def closed(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)
        self._count_connections()
        self._ended.set()

    def _count_connections(self) -> None:
        if self._served_counts is not None:
            self._served_counts.connections = len(self.connections)

    def serve(self, exchange: Exchange) -> None:
        handling = self._begin(exchange)
        if handling is None:
            return
        task = self._loop.create_task(handling)
        self.tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._ended.set()

    def _set_date(self) -> None:
        self.date_line = f"date: {formatdate(self._now_ms() / 1000, usegmt=True)}\r\n".encode()

    async def _check(self, stall_seconds: float, least_bytes_per_second: float) -> None:
        while True:
            await asyncio.sleep(min(_CHECK_EVERY_S, stall_seconds / 2))
            await arrivals_read()
            self._set_date()
            if self._answer_overdue is not None:
                self._answer_overdue()
            for connection in list(self.connections):
                connection.check(self._loop.time(), stall_seconds, least_bytes_per_second)
