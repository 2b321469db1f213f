"""One start of a simulated member of a cluster: a process with its own loop, wired as by `quiver serve --cluster`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from quiver.app.cluster.replicated import NodeSystem, StartedNode, start_replicated
from quiver.app.config import Config
from quiver.broker.broker import Broker
from quiver.broker.settings import BrokerSettings
from quiver.cluster.placement import Placement
from quiver.coordination.port import Coordination
from quiver.gateways.native.gateway import NativeGateway
from quiver.model.errors import CorruptData, InvalidSetting, QuiverError
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import Storage
from quiver.system.randomness import SeededRandomness
from quiver.testing.simulation.cluster.etcd import EtcdModel
from quiver.testing.simulation.cluster.etcd_client import ModelCoordination
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.disk import Disk
from quiver.testing.simulation.system.files import FEW_LOGS, SimulatedFiles
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.system.threads import SimulatedThreads
from quiver.testing.simulation.world import World
from quiver.topics.replica_counts import ReplicaCounts

ROOT = Path("/data")
PORT, LINK_PORT = 7481, 7483
_STOP_SECONDS = 10.0


class ClusterShape(NamedTuple):
    """What all nodes are started with."""

    nodes: int
    workers: int
    replicas: int
    min_isr: int
    is_mixed: bool = False
    """Some nodes speak an older version of the protocol between nodes, at each start others."""


class Machine(NamedTuple):
    """What the processes of a member share."""

    number: int
    name: str
    world: World
    network: SimulatedNetwork
    etcd: EtcdModel
    clock: SimulatedClock
    disk: Disk
    randomness: SeededRandomness
    shape: ClusterShape
    on_error: Callable[[str], None]
    """Gets what must not happen: a start that fails, an exception that nobody caught."""
    link_versions: str
    """What it speaks with other nodes."""
    has_own_disk: bool
    """Otherwise no process of it may start."""


class MemberProcess:
    """Runs once, from `start` to `kill` or the end of `stop`."""

    def __init__(self, machine: Machine, number: int) -> None:
        """`number` counts the processes of the machine."""
        self._machine = machine
        self.name = f"{machine.name}/{number}"
        self.is_up = False
        """It is started and serves."""
        self.has_ended = False
        self.loop = SimulatedLoop(machine.world, self.name, machine.on_error)
        self.files = SimulatedFiles(machine.disk, machine.clock, self.kill)
        self._started: StartedNode | None = None
        self._gateway: NativeGateway | None = None

    @property
    def has_failed_disk(self) -> bool:
        """A write has failed: some of its logs take no more before the next start."""
        return self._started is not None and self._started.data.storage.failure is not None

    def start(self) -> None:
        self._machine.world.note("start", self.name)
        self.loop.call_soon(lambda: self.loop.create_task(self._serve()))

    async def _serve(self) -> None:
        try:
            await self._start()
            if not self._machine.has_own_disk:
                self._machine.on_error(f"{self.name} starts with the disk of another machine")
            self.is_up = True
            self._machine.world.note("up", self.name)
        except (CorruptData, InvalidSetting) as error:
            if self._machine.has_own_disk:
                self._machine.on_error(f"{self.name} does not start: {type(error).__name__}: {error}")
            asyncio.get_running_loop().call_soon(self.kill)
        except (QuiverError, OSError) as error:  # it is started again, as by an init system
            self._machine.world.note("does not start", self.name, type(error).__name__, error)
            asyncio.get_running_loop().call_soon(self.kill)
        except Exception as error:
            self._machine.on_error(f"{self.name} does not start: {type(error).__name__}: {error}")

    async def _start(self) -> None:
        machine, shape = self._machine, self._machine.shape
        network = machine.network.of(self.name)
        config = Config(
            data_dir=ROOT,
            host=machine.name,
            native_port=PORT,
            http_port=0,
            link_port=LINK_PORT,
            node_id=str(machine.number),
            cluster="simulated",
            cluster_workers=shape.workers,
            replication_factor=shape.replicas,
            min_isr=shape.min_isr,
            link_versions=machine.link_versions,
        )
        storage = LocalStorage(
            ROOT,
            LocalSettings(max_open_files=1000, few_logs=FEW_LOGS),
            LocalSystem(
                files=self.files,
                clock=machine.clock,
                randomness=machine.randomness,
                new_threads=lambda count, name: SimulatedThreads(machine.disk, count),
            ),
        )
        await storage.open()
        self._started = started = await start_replicated(
            config,
            storage,
            ModelCoordination(machine.etcd, self.name),
            lambda replicas: partial(self._new_broker, replicas),
            NodeSystem(self.files, machine.clock, machine.randomness, network),
        )
        gateway = NativeGateway(started.node.gateway.broker, host=machine.name, port=PORT, network=network)
        self._gateway = gateway
        await gateway.start()
        await started.node.serve_at(gateway.port, 0)

    def _new_broker(
        self, replicas: ReplicaCounts, placement: Placement, storage: Storage, coordination: Coordination
    ) -> Broker:
        return Broker(
            storage,
            clock=self._machine.clock,
            randomness=self._machine.randomness,
            settings=BrokerSettings(placement=placement, replicas=replicas),
            coordination=coordination,
        )

    # the end

    def kill(self) -> None:
        """Like kill -9: what was written stays."""
        self._end(self._machine.network.end_of)

    def lose_power(self) -> None:
        """The machine tells nobody that its connections are gone."""
        self._end(self._machine.network.power_lost)

    def _end(self, end_connections: Callable[[str], None]) -> None:
        if not self.has_ended:
            self.has_ended, self.is_up = True, False
            self._machine.world.note("kill", self.name)
            self.files.kill()
            self.loop.kill()
            end_connections(self.name)
            self._machine.etcd.end_of(self.name)

    def stop(self) -> None:
        """Like SIGTERM: finishes what was accepted and ends. `has_ended` says when."""
        self._machine.world.note("stop", self.name)
        self.loop.call_soon(lambda: self.loop.create_task(self._stop()))

    async def _stop(self) -> None:
        if self.is_up and self._gateway is not None and self._started is not None:
            self.is_up = False
            started = self._started
            await _within(_STOP_SECONDS * 0.7, started.node.stop_working())
            await _within(_STOP_SECONDS * 0.1, self._gateway.stop(_STOP_SECONDS * 0.07))
            await _within(_STOP_SECONDS * 0.2, self._close(started))
        self._machine.world.note("stopped", self.name)
        asyncio.get_running_loop().call_soon(self.kill)

    async def _close(self, started: StartedNode) -> None:
        await started.node.close()
        await started.data.close()


async def _within(seconds: float, end: Awaitable[None]) -> None:
    """As `quiver serve` ends: what does not end in time, or fails, does not keep the rest from ending."""
    with contextlib.suppress(TimeoutError, QuiverError, OSError):
        await asyncio.wait_for(end, seconds)
