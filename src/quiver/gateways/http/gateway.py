"""The HTTP gateway: a started broker on a port."""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from quiver.gateways.http.application import Application
from quiver.gateways.http.browser_guard import BrowserGuard
from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.operation import Routes
from quiver.gateways.http.routes import own_routes
from quiver.gateways.http.routes.node.health import Readiness
from quiver.gateways.http.settings import HttpSettings
from quiver.gateways.http.wire.server import HttpServer
from quiver.gateways.shared_listener import WorkerShare
from quiver.system.files import Files
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget
from quiver.telemetry.loop_lag import LoopLag

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class HttpGateway:
    """Serves a started broker over HTTP. Installs no signal handlers; `start` and `stop` may be repeated.

    `budget` is the memory that all requests and responses may take together.
    """

    def __init__(
        self,
        broker: "Facade",
        *,
        host: str = "127.0.0.1",
        port: int = 7480,
        settings: HttpSettings = HttpSettings(),  # noqa: B008 - frozen
        routes: "Callable[[Facade, Readiness], Routes]" = own_routes(NodeInfo(version="unknown")),  # noqa: B008 - pure
        budget: MemoryBudget | None = None,
    ) -> None:
        self.port = port
        self._address = (host, port)
        self._settings = settings
        self._budget = budget or MemoryBudget(DEFAULT_BYTES)
        self.lag = LoopLag()
        self._readiness = Readiness(
            broker,
            lag=self.lag,
            files=Files(),
            data_dir=settings.data_dir,
            min_free_bytes=settings.min_free_bytes,
        )
        self._application = Application(
            routes(broker, self._readiness),
            broker.limits,
            self._budget,
            guard=BrowserGuard(settings.allowed_hosts, settings.allowed_origins),
            log_requests=settings.log_requests,
            now_ms=broker.clock.now_ms,
        )
        if settings.outage is not None:
            self._application.watch(settings.outage)
        self.served = self._application.served
        self.served.name = settings.name
        self.machine = self._readiness.machine
        self._now_ms = broker.clock.now_ms
        self._server: HttpServer | None = None

    async def start(self, listener: socket.socket | None = None, share: WorkerShare | None = None) -> None:
        """Binds the port, unless it is given a listener, and serves from then on; OSError when the port is taken.

        With a `share`, other workers accept from the same listener.
        """
        if self._server is not None:
            return
        listener = listener or open_listener(*self._address)
        self.port = listener.getsockname()[1]
        self._server = HttpServer(
            self._application.begin, self._budget, self._now_ms, self.served, self._application.answer_overdue
        )
        self.lag.start()
        settings = self._settings
        await self._server.start(listener, settings.stall_seconds, settings.least_bytes_per_second, share)

    async def stop(self, grace: float = 1.5) -> None:
        """Takes no more connections, lets requests under way finish for `grace` seconds, then cuts them off."""
        server, self._server = self._server, None
        if server is None:
            return
        self._readiness.stopping = True
        await server.stop(grace)
        self.lag.stop()


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens on the first address of a host."""
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
