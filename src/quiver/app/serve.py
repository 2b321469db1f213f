"""The broker as a process: data directory, native port, HTTP port, signals and a clean end."""

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import FrameType

import msgspec

from quiver.app.addresses import STATE_FILE, Addresses, advertised_host, state_of, warn_if_exposed
from quiver.app.build_info import BuildInfo, build_info
from quiver.app.config import Config, shown_values
from quiver.app.garbage import keep_collections_short, set_aside
from quiver.app.node import RunningBroker, start_broker, start_worker
from quiver.app.workers.inbox_reader import InboxReader
from quiver.app.workers.seat import WorkerSeat
from quiver.gateways.http import HttpGateway, HttpSettings, NodeInfo
from quiver.gateways.http.routes import own_routes
from quiver.gateways.native.context import WorkerPlace
from quiver.gateways.native.gateway import NativeGateway
from quiver.gateways.native.settings import NativeSettings
from quiver.gateways.queen.routes import queen_routes
from quiver.gateways.queen.routes.operate.port import port_routes
from quiver.gateways.shared_listener import WorkerShare
from quiver.links.peers import Peers
from quiver.metrics.sources.node import Build, ProcessNumbers
from quiver.model.errors import Closed, InvalidSetting
from quiver.system.clock import Clock, SystemClock
from quiver.system.files import Files
from quiver.system.memory_budget import MemoryBudget
from quiver.system.network import OpenedNetwork, TcpNetwork

_log = logging.getLogger(__name__)


class Server:
    """A broker with its ports. `start` and `stop` may be called several times.

    With a `seat` it is one worker of several: it serves the listeners of its supervisor, takes connections that other
    workers pass to it, and calls other workers.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        seat: WorkerSeat | None = None,
    ) -> None:
        self._config, self._seat = config, seat
        self._peers: Peers | None = None
        self._inbox: InboxReader | None = None
        self._clock = clock or SystemClock()
        self._files = files or Files()
        self._running: RunningBroker | None = None
        self._native: NativeGateway | None = None
        self._http: HttpGateway | None = None
        self._queen: HttpGateway | None = None
        self._stopped = False

    async def start(self) -> Addresses:
        """Opens the data, binds the ports and leaves DATA_DIR/broker.json; nothing stays open after a failure."""
        try:
            if self._http is None:
                await self._start_parts()
        except BaseException:
            await self.stop()
            raise
        addresses = self.addresses
        if self._seat is None:
            state = state_of(addresses, os.getpid(), self._clock.now_ms())
            self._files.make_directory(self._config.data_dir)  # on a database, nobody else has made it
            self._files.write_file(self._state_path, msgspec.json.encode(state) + b"\n", sync=False)
            warn_if_exposed(self._config, addresses)
        return addresses

    async def _start_parts(self) -> None:
        config, seat = self._config, self._seat
        slow_client_seconds = config.slow_client_timeout_ms / 1000
        budget = MemoryBudget(config.memory_budget, request_bytes=config.max_request_bytes)
        if seat is None:
            self._running = await start_broker(config)
        else:
            self._inbox = InboxReader(seat.inbox)
            self._running, self._peers = await start_worker(config, seat, self._inbox)
        facade = self._running.facade
        self._native = NativeGateway(
            facade,
            host=config.host,
            port=config.native_port,
            settings=NativeSettings(
                stall_seconds=slow_client_seconds, least_bytes_per_second=config.slow_client_rate
            ),
            budget=budget,
            network=TcpNetwork() if seat is None else OpenedNetwork(seat.native),
        )
        share: WorkerShare | None = None
        if seat is not None:
            self._native.place = WorkerPlace(seat.worker, seat.workers, seat.pass_client)
            share = self._native.share = WorkerShare(seat.connections, seat.worker)
            share.gateways.append(self._native.served)
        await _bind("native_port", config.native_port, self._native.start)
        self._http = HttpGateway(
            facade,
            host=config.host,
            port=config.http_port,
            settings=self._http_settings("http"),
            routes=own_routes(self._node_info(build_info()), queen_routes),
            budget=budget,
        )
        self._start_metrics(self._running, self._native, self._http, budget)
        if share is not None:
            share.gateways.append(self._http.served)
        listener = None if seat is None else seat.http
        await _bind("http_port", config.http_port, partial(self._http.start, listener, share))
        self._native.other_ports.http = self._http.port
        if self._inbox is not None:
            self._inbox.serve_clients(self._native.serve_socket)
        if self._running.node is not None:
            await self._running.node.serve_at(self._native.port, self._http.port)
        if config.queen_port is not None:
            await self._start_queen(self._running, config.queen_port, budget, share)

    async def _start_queen(
        self, running: RunningBroker, port: int, budget: MemoryBudget, share: WorkerShare | None
    ) -> None:
        self._queen = HttpGateway(
            running.facade,
            host=self._config.host,
            port=port,
            settings=self._http_settings("queen"),
            routes=port_routes(build_info().version),
            budget=budget,
        )
        running.broker.sampler.gateways.append(self._queen.served)
        if share is not None:
            share.gateways.append(self._queen.served)
        listener = None if self._seat is None else self._seat.queen
        await _bind("queen_port", port, partial(self._queen.start, listener, share))

    def _http_settings(self, name: str) -> HttpSettings:
        config = self._config
        return HttpSettings(
            name=name,
            stall_seconds=config.slow_client_timeout_ms / 1000,
            least_bytes_per_second=config.slow_client_rate,
            allowed_hosts=tuple(name for name in (config.host, config.advertise, *config.allowed_host) if name),
            allowed_origins=config.queen_origin if name == "queen" else (),
            log_requests=config.log_requests,
            outage=None if self._running is None else self._running.outage,
            data_dir=config.data_dir,
            min_free_bytes=config.min_free_bytes,
        )

    def _start_metrics(
        self, running: RunningBroker, native: NativeGateway, http: HttpGateway, budget: MemoryBudget
    ) -> None:
        build, broker = build_info(), running.broker
        held_bytes = {
            "requests": lambda: budget.held_bytes,
            "queue_frames": lambda: sum(each.size_bytes for each in {each.queues.frames for each in running.brokers}),
        }
        process = Build(build.version, build.git_commit, self._clock.now_ms())
        broker.metrics.sources.append(ProcessNumbers(process, http.machine, http.lag, held_bytes))
        broker.sampler.gateways += [native.served, http.served]
        broker.sampler.start()

    @property
    def addresses(self) -> Addresses:
        if self._native is None or self._http is None:
            raise Closed(what="the server")
        queen_port = None if self._queen is None else self._queen.port
        return Addresses(advertised_host(self._config), self._http.port, self._native.port, queen_port)

    async def stop(self) -> bool:
        """Refuses new work, finishes what was accepted, sends its responses, syncs and closes.

        Returns False if a part did not end within its share of the shutdown timeout. Acknowledged data is safe even
        then, and the next start recovers.
        """
        if self._stopped:
            return True
        self._stopped = True
        total = self._config.shutdown_timeout_ms / 1000
        clean = True
        if self._peers is not None:
            self._peers.end()
        if self._running is not None:
            clean &= await _within(total * 0.7, "finishing accepted work", self._running.finish())
        clean &= await self._stop_gateways(total)
        if self._running is not None:
            clean &= await _within(total * 0.2, "closing the data", self._running.close())
            if self._seat is None:
                self._files.remove(self._state_path)
        return clean

    async def _stop_gateways(self, total: float) -> bool:
        ends: list[Awaitable[None]] = []
        if self._inbox is not None and self._peers is not None:
            self._inbox.stop()
            ends.append(self._peers.close(total * 0.07))
        if self._native is not None:
            ends.append(self._native.stop(total * 0.07))
        if self._http is not None:
            ends.append(self._http.stop(total * 0.07))
        if self._queen is not None:
            ends.append(self._queen.stop(total * 0.07))
        results = await asyncio.gather(*(_within(total * 0.1, "closing connections", end) for end in ends))
        return all(results)

    def _node_info(self, build: BuildInfo) -> NodeInfo:
        return NodeInfo(
            version=build.version,
            git_commit=build.git_commit,
            build_time=build.build_time,
            started=self._clock.now_ms(),
            settings=shown_values(self._config),
        )

    @property
    def _state_path(self) -> Path:
        return self._config.data_dir / STATE_FILE


async def serve(config: Config, *, on_ready: Callable[[Addresses], None]) -> bool:
    """Runs a broker until SIGTERM or SIGINT; True when it ended cleanly. `on_ready` is called once it is ready."""
    stopping = asyncio.Event()
    stop_on_signals(stopping)
    return await run_server(Server(config), stopping, on_ready=on_ready)


async def run_server(server: Server, stopping: asyncio.Event, *, on_ready: Callable[[Addresses], None]) -> bool:
    """Starts a server, and stops it when the event is set; True when it ended cleanly."""
    raise_open_file_limit()
    collecting = asyncio.ensure_future(keep_collections_short())  # a start makes more objects than anything later
    try:
        return await _run_until(server, stopping, on_ready)
    finally:
        collecting.cancel()


async def _run_until(server: Server, stopping: asyncio.Event, on_ready: Callable[[Addresses], None]) -> bool:
    starting = asyncio.ensure_future(server.start())
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return True
    waiting.cancel()
    on_ready(starting.result())
    set_aside()
    await stopping.wait()
    clean = await server.stop()
    _log.info("stopped" if clean else "not everything was closed in time: the next start checks the ends of the logs")
    return clean


def raise_open_file_limit() -> None:
    """Raises the soft limit on open files to the hard one: partitions and connections each need some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop_on_signals(stopping: asyncio.Event) -> None:
    """SIGTERM and SIGINT set the event, however often they come.

    The handlers outlive the loop (the loop's own do not), so that a late second signal cannot change the exit status.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_begin_stop, signal.Signals(number).name, stopping)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def _begin_stop(name: str, stopping: asyncio.Event) -> None:
    _log.info("%s: %s", name, "already stopping" if stopping.is_set() else "stopping")
    stopping.set()


async def _bind(setting: str, port: int, start: Callable[[], Awaitable[None]]) -> None:
    try:
        await start()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidSetting(setting=setting, problem=f"cannot listen on port {port}: {reason}") from error


async def _within(seconds: float, what: str, end: Awaitable[None]) -> bool:
    """Awaits one step of the shutdown; a failure or a timeout is logged and the next step still runs."""
    try:
        await asyncio.wait_for(end, seconds)
    except TimeoutError:
        _log.error("%s did not end within %.1f s", what, seconds)
        return False
    except Exception:
        _log.exception("%s failed", what)
        return False
    return True
