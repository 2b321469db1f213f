"""One worker of a simulated node, or the whole broker where there is one: a process with a loop of its own."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from quiver.broker.broker import Broker
from quiver.broker.settings import BrokerSettings
from quiver.cluster.placement import Placement
from quiver.coordination.port import Coordination
from quiver.gateways.native.context import WorkerPlace
from quiver.gateways.native.gateway import NativeGateway
from quiver.model.errors import WorkerUnavailable
from quiver.routing.facade import Facade
from quiver.routing.worker import Worker
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.randomness import SeededRandomness
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.disk import Disk
from quiver.testing.simulation.system.files import FEW_LOGS, SimulatedFiles
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.system.sockets import SimulatedSocket
from quiver.testing.simulation.system.threads import SimulatedThreads
from quiver.testing.simulation.world import World

ROOT = Path("/data")
PORT = 7481


class Machine(NamedTuple):
    """What the processes of a node share."""

    name: str
    world: World
    network: SimulatedNetwork
    clock: SimulatedClock
    disk: Disk
    randomness: SeededRandomness
    on_error: Callable[[str], None]
    """Gets what must not happen: a start that fails, an exception that nobody caught."""


class Inboxes(NamedTuple):
    """Of all workers of a node, by number: sockets that others pass on. They outlive the workers."""

    links: list[list[socket.socket]]
    clients: list[list[tuple[socket.socket, bytes]]]


class WorkerProcess:
    """Runs once, from `start` to `kill` or the end of `stop`."""

    def __init__(
        self, machine: Machine, placement: Placement, inboxes: Inboxes, others: "list[WorkerProcess]", number: int
    ) -> None:
        """`others` are the processes that run now, by worker; `number` counts the processes of the node."""
        self._machine, self._placement, self._inboxes, self._others = machine, placement, inboxes, others
        self.name = process_name(machine.name, placement)
        self.is_up = False
        """It is started and serves."""
        self.has_ended = False
        self.loop = SimulatedLoop(machine.world, f"{self.name}/{number}", machine.on_error)
        self.on_file_kill: Callable[[], None] = self.kill
        self.files = SimulatedFiles(machine.disk, machine.clock, lambda: self.on_file_kill())
        self._storage: LocalStorage | None = None
        self._worker: Worker | None = None
        self._broker: Broker | None = None
        self._gateway: NativeGateway | None = None

    def start(self) -> None:
        self._machine.world.note("start", self.name)
        self.loop.call_soon(lambda: self.loop.create_task(self._serve()))

    async def _serve(self) -> None:
        try:
            await self._start_broker()
            self.is_up = True
            self._machine.world.note("up", self.name)
        except WorkerUnavailable:  # the one that it needed was killed: it is started again
            asyncio.get_running_loop().call_soon(self.kill)
        except Exception as error:
            self._machine.on_error(f"{self.name} does not start: {type(error).__name__}: {error}")

    async def _start_broker(self) -> None:
        machine, placement = self._machine, self._placement
        settings = LocalSettings(
            max_open_files=1000, few_logs=FEW_LOGS, worker=placement.worker, workers=placement.worker_count
        )
        if not placement.is_alone:
            settings = settings._replace(lock_fd=self.files.lock(ROOT / "lock"))
        self._storage = LocalStorage(
            ROOT,
            settings,
            LocalSystem(
                files=self.files,
                clock=machine.clock,
                randomness=machine.randomness,
                new_threads=lambda count, name: SimulatedThreads(machine.disk, count),
            ),
        )
        await self._storage.open()
        facade = await self._start_facade()
        network = machine.network.of(self.name)
        gateway = self._gateway = NativeGateway(facade, host=machine.name, port=PORT, network=network)
        if not placement.is_alone:
            gateway.place = WorkerPlace(placement.worker, placement.worker_count, self._pass_client)
        await gateway.start()
        self.take_clients()

    async def _start_facade(self) -> Facade:
        if self._placement.is_alone:
            self._broker = self._new_broker(None)
            await self._broker.start()
            return self._broker
        worker = self._worker = Worker(self._placement, self._dial, self._new_broker)
        self._broker = worker.local
        self.take_links()
        await worker.start()
        return worker.broker

    def _new_broker(self, coordination: Coordination | None) -> Broker:
        assert self._storage is not None
        return Broker(
            self._storage,
            clock=self._machine.clock,
            randomness=self._machine.randomness,
            settings=BrokerSettings(placement=self._placement),
            coordination=coordination,
        )

    # sockets of others

    def take_links(self) -> None:
        if self._worker is not None and not self.has_ended:
            waiting = self._inboxes.links[self._placement.worker]
            while waiting:
                self._worker.peers.accept(waiting.pop(0))

    def take_clients(self) -> None:
        if self._gateway is not None and not self.has_ended:
            waiting = self._inboxes.clients[self._placement.worker]
            while waiting:
                self._gateway.serve_socket(*waiting.pop(0))

    async def _dial(self, worker: int) -> socket.socket:
        target = self._placement._replace(worker=worker)
        ours, theirs = self._machine.network.pair(self.name, process_name(self._machine.name, target))
        self._inboxes.links[worker].append(cast(socket.socket, theirs))
        other = self._others[worker]
        other.loop.call_soon(other.take_links)
        return cast(socket.socket, ours)

    def _pass_client(self, worker: int, sock: socket.socket, read_before: bytes) -> None:
        target = process_name(self._machine.name, self._placement._replace(worker=worker))
        moved = self._machine.network.move(cast(SimulatedSocket, sock), target)
        self._inboxes.clients[worker].append((cast(socket.socket, moved), read_before))
        other = self._others[worker]
        other.loop.call_soon(other.take_clients)

    # the end

    def kill(self) -> None:
        """Like kill -9: what was written stays."""
        if not self.has_ended:
            self.has_ended, self.is_up = True, False
            self._machine.world.note("kill", self.name)
            self.files.kill()
            self.loop.kill()
            self._machine.network.end_of(self.name)

    def stop(self) -> None:
        """Like SIGTERM: finishes what was accepted and ends. `has_ended` says when."""
        self._machine.world.note("stop", self.name)
        self.loop.call_soon(lambda: self.loop.create_task(self._stop()))

    async def _stop(self) -> None:
        if self.is_up and self._gateway is not None and self._broker is not None and self._storage is not None:
            self.is_up = False
            await self._gateway.stop(2.0)
            await self._broker.stop()
            if self._worker is not None:
                await self._worker.peers.close(1.0)
            await self._storage.close()
        self._machine.world.note("stopped", self.name)
        asyncio.get_running_loop().call_soon(self.kill)


def process_name(node: str, placement: Placement) -> str:
    return node if placement.is_alone else f"{node}/{placement.worker}"
