"""The native port: listens, accepts, and checks the deadlines of its connections."""

import asyncio
import errno
import logging
import socket
from functools import cached_property

from quiver.gateways.native.connection import Connection
from quiver.gateways.native.context import NativeContext, NativeCounts, OtherPorts, WorkerPlace
from quiver.gateways.native.requests import OPERATIONS
from quiver.gateways.native.settings import NativeSettings
from quiver.gateways.shared_listener import SharedListener, WorkerShare
from quiver.model.errors import Overloaded, QuiverError, ShuttingDown
from quiver.protocol.failure import failure_of
from quiver.protocol.messages import Produce
from quiver.protocol.packet import NO_CORRELATION, encode_packet
from quiver.routing.facade import Facade
from quiver.structures.ordered_set import OrderedSet
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget
from quiver.system.network import Network, TcpNetwork, arrivals_read, tune
from quiver.telemetry.gateway_counts import GatewayCounts

logger = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ACCEPT_PAUSE_SECONDS = 1.0


class NativeGateway:
    """Serves a broker over TCP after `start`, and over any connected stream socket with `serve_socket`.

    Everything happens on the loop that runs `start` or the first `serve_socket`.
    """

    def __init__(
        self,
        broker: Facade,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: NativeSettings = NativeSettings(),  # noqa: B008 - frozen
        budget: MemoryBudget | None = None,
        network: Network = TcpNetwork(),  # noqa: B008 - has no state
    ) -> None:
        self.place = WorkerPlace()
        """Set before the first connection, where there are several workers."""
        self.host, self.port = host, port
        self.counts = NativeCounts()
        self._settings, self._network = settings, network
        self.served = GatewayCounts("native", operations=OPERATIONS, publish=Produce.__name__)
        self.other_ports = OtherPorts()
        self._broker, self._budget = broker, budget or MemoryBudget(DEFAULT_BYTES)
        self.share: WorkerShare | None = None
        """Set before `start`, where other workers accept from the same listeners."""
        self._shared: list[SharedListener] = []
        self._listeners: list[socket.socket] = []
        self._connections: OrderedSet[Connection] = OrderedSet()
        self._watch: asyncio.Task[None] | None = None
        self._all_closed = asyncio.Event()
        self._stopped = False

    async def start(self) -> None:
        """Binds and listens; `port` then says where. InvalidSetting when the address is not available."""
        self._listeners, self.port = await self._network.listen(self.host, self.port)
        if self.share is not None:
            share, self._listeners, listeners = self.share, [], self._listeners
            self._shared = [SharedListener(listener, share, self._serve_accepted) for listener in listeners]
        for listener in self._listeners:
            self._accept_from(listener)

    @cached_property
    def _context(self) -> NativeContext:
        return NativeContext(
            self._broker, self._settings, self.counts, self.served, self._budget, self.other_ports, self.place
        )

    def serve_socket(self, sock: socket.socket, read_before: bytes = b"") -> None:
        """Serves a connected stream socket, which is the gateway's from here on.

        `read_before` is what another worker has read from it already.
        """
        sock.setblocking(False)
        tune(sock)
        self.counts.connections_total += 1
        if self._stopped:
            self._turn_away(sock, ShuttingDown())
            return
        if len(self._connections) >= self._settings.connections:
            self._turn_away(sock, Overloaded(problem=f"{len(self._connections)} connections"))
            return
        connection = Connection(sock, _peer(sock), self._context, on_closed=self._on_closed, read_before=read_before)
        self._connections.add(connection)
        self.counts.connections_open = self.served.connections = len(self._connections)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_deadlines())

    async def stop(self, grace: float = 5.0) -> None:
        """Takes no more connections or requests, finishes what was begun within `grace` seconds, closes all."""
        self._stopped = True
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener.fileno())
            listener.close()
        self._listeners.clear()
        for shared in self._shared:
            shared.close()
        self._shared.clear()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            self._all_closed.clear()
            try:
                await asyncio.wait_for(self._all_closed.wait(), grace)
            except TimeoutError:
                for connection in list(self._connections):
                    connection.abort("the broker is stopping")
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _accept_from(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listener.fileno(), self._on_connect, listener)

    def _on_connect(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                logger.warning("cannot accept connections for a moment: %s", error.strerror)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener.fileno())
                loop.call_later(_ACCEPT_PAUSE_SECONDS, self._accept_from, listener)
                return
            self._serve_accepted(sock)

    def _serve_accepted(self, sock: socket.socket) -> None:
        try:
            self.serve_socket(sock)
        except OSError:
            sock.close()

    def _turn_away(self, sock: socket.socket, error: QuiverError) -> None:
        self.counts.connections_refused += 1
        with sock:
            try:
                sock.send(encode_packet(NO_CORRELATION, failure_of(error)))
            except OSError:
                logger.debug("a connection that was turned away is gone already")

    def _on_closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.counts.connections_open = self.served.connections = len(self._connections)
        if not self._connections:
            self._all_closed.set()

    async def _watch_deadlines(self) -> None:
        settings = self._settings
        interval = min(1.0, settings.handshake_seconds / 4, settings.stall_seconds / 4, settings.linger_seconds / 4)
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(interval)
            await arrivals_read()
            now = loop.time()
            for connection in list(self._connections):
                connection.check_deadlines(now)


def _peer(sock: socket.socket) -> str:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return "the embedding process"
    host, port = sock.getpeername()[:2]
    return f"{host}:{port}"
