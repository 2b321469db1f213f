"""The HTTP gateway: uvicorn inside the running event loop."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from quiver.gateways.http.application import Application
from quiver.gateways.http.browser_guard import BrowserGuard
from quiver.gateways.http.connection import BoundedConnection
from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.routes import all_routes
from quiver.gateways.http.routes.node.health import Readiness
from quiver.gateways.http.settings import HttpSettings
from quiver.system.files import Files
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget
from quiver.telemetry.loop_lag import LoopLag

if TYPE_CHECKING:
    from quiver.broker.broker import Broker

_CHECK_EVERY_S = 1.0


class HttpGateway:
    """Serves a started broker over HTTP. Installs no signal handlers; `start` and `stop` may be repeated.

    `budget` is the memory that all requests and responses may take together.
    """

    def __init__(
        self,
        broker: "Broker",
        *,
        host: str = "127.0.0.1",
        port: int = 7480,
        settings: HttpSettings = HttpSettings(),  # noqa: B008 - frozen
        node: NodeInfo | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.port = port
        self._address = (host, port)
        self._settings = settings
        self._budget = budget or MemoryBudget(DEFAULT_BYTES)
        self._lag = LoopLag()
        self._readiness = Readiness(
            broker,
            lag=self._lag,
            files=Files(),
            data_dir=settings.data_dir,
            min_free_bytes=settings.min_free_bytes,
        )
        self._application = Application(
            all_routes(broker, node or NodeInfo(version="unknown"), self._readiness),
            broker.limits,
            self._budget,
            guard=BrowserGuard(settings.allowed_hosts),
            log_requests=settings.log_requests,
        )
        self._server: _Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Binds the port and serves from then on; OSError when the port is taken."""
        if self._server is not None:
            return
        listener = _listen(*self._address)
        self.port = listener.getsockname()[1]
        self._server = _Server(_config(self._application, self._budget))
        self._lag.start()
        self._tasks = [
            asyncio.create_task(self._server.serve(sockets=[listener]), name="http-server"),
            asyncio.create_task(self._check_connections(self._server), name="http-connections"),
        ]
        await self._server.listening.wait()

    async def stop(self, grace: float = 1.5) -> None:
        """Takes no more connections, lets requests under way finish for `grace` seconds, then cuts them off."""
        server, self._server = self._server, None
        if server is None:
            return
        self._readiness.stopping = True
        serving, checking = self._tasks
        server.should_exit = True
        await asyncio.wait([serving], timeout=grace)
        server.force_exit = True
        for connection in list(server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for task in server.server_state.tasks:
            task.cancel()
        checking.cancel()
        self._lag.stop()
        await asyncio.gather(serving, checking, return_exceptions=True)

    async def _check_connections(self, server: "_Server") -> None:
        loop, settings = asyncio.get_running_loop(), self._settings
        while True:
            await asyncio.sleep(min(_CHECK_EVERY_S, settings.stall_seconds / 2))
            for connection in list(server.server_state.connections):
                if isinstance(connection, BoundedConnection):
                    connection.check(loop.time(), settings.stall_seconds, settings.least_bytes_per_second)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, which belong to whoever owns the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def _config(application: Application, budget: MemoryBudget) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=partial(BoundedConnection, budget=budget),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=5,
    )


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
