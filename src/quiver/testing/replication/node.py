"""A simulated node: logs on a simulated disk, replicated to the others, served to clients while it leads."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from quiver.model.errors import CoordinationUnavailable, NotLeader
from quiver.replication.clean_stop import CleanStop
from quiver.replication.messages import Buffer, Message, Position
from quiver.replication.node import ReplicatedNode
from quiver.replication.settings import Member, ReplicationSettings
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.system.randomness import SeededRandomness
from quiver.testing.replication.catalogue import Catalogue
from quiver.testing.replication.coordination import CoordinationClient, CoordinationModel
from quiver.testing.replication.host import DeleteLog, Host, Publish
from quiver.testing.replication.network import CallNetwork
from quiver.testing.simulation.system.clock import SimulatedClock
from quiver.testing.simulation.system.disk import Disk
from quiver.testing.simulation.system.files import FEW_LOGS, SimulatedFiles
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.threads import SimulatedThreads
from quiver.testing.simulation.world import World

_ROOT = Path("/data")
_RENEW_SECONDS = 0.5
SETTINGS = ReplicationSettings(
    call_seconds=0.5,
    idle_seconds=0.2,
    lag_seconds=1.0,
    call_bytes=512,
    catch_up_bytes_per_second=100_000,
)


class Cluster:
    """What all nodes share."""

    def __init__(self, world: World, on_error: Callable[[str], None]) -> None:
        self.world, self.on_error = world, on_error
        self.network, self.model = CallNetwork(world), CoordinationModel(world)
        self.catalogue = Catalogue()


class NodeLinks:
    def __init__(self, network: CallNetwork, node: int) -> None:
        self._network, self._node = network, node

    async def call(self, node: int, message: Message, payload: Sequence[Buffer] = ()) -> Position:
        position: Position = await self._network.call(self._node, node, (message, b"".join(payload)))
        return position


class SimulatedNode:
    def __init__(self, number: int, cluster: Cluster) -> None:
        self.number = number
        self._cluster, self._world = cluster, cluster.world
        self.clock = SimulatedClock(self._world)
        self.disk = Disk(self._world.seeded(f"disk/{number}"))
        self._chance = self._world.seeded(f"host/{number}")
        self._randomness = SeededRandomness(self._world.seeded(f"randomness/{number}"))
        self._starts = 0
        self.loop: SimulatedLoop | None = None
        self._files: SimulatedFiles | None = None
        self.node: ReplicatedNode | None = None
        self.local: LocalStorage | None = None
        self.host: Host | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._lost_at = 0

    @property
    def is_running(self) -> bool:
        return self.loop is not None

    def start(self) -> None:
        self._starts += 1
        self._world.note("start", self.number)
        loop = self.loop = SimulatedLoop(self._world, f"node-{self.number}/{self._starts}", self._cluster.on_error)
        self._files = SimulatedFiles(self.disk, self.clock, self.kill)
        loop.call_soon(lambda: loop.create_task(self._run(loop)))

    def kill(self) -> None:
        if self.loop is not None and self._files is not None:
            self._world.note("kill", self.number)
            self._files.kill()
            self.loop.kill()
            self.loop = self.node = self.local = self.host = None
            self._cluster.network.processes.pop(self.number, None)

    def cut_power(self) -> None:
        self.kill()
        self.disk.cut_power()

    def stop(self) -> None:
        """Cleanly, if it comes to that before something else happens."""
        if self.loop is not None and self.host is not None:
            loop = self.loop
            loop.call_soon(lambda: loop.create_task(self._stop()))

    async def _stop(self) -> None:
        self._world.note("stop", self.number)
        self._cluster.network.processes.pop(self.number, None)
        for task in self._tasks:
            task.cancel()
        assert self.node is not None
        assert self.local is not None
        assert self._files is not None
        await self.node.close()
        await self.local.close()
        CleanStop(_ROOT, self._files).leave(self._lost_at)
        self.kill()

    async def _run(self, loop: SimulatedLoop) -> None:
        assert self._files is not None
        system = LocalSystem(
            files=self._files,
            clock=self.clock,
            randomness=self._randomness,
            new_threads=lambda count, name: SimulatedThreads(self.disk, count),
        )
        cluster = self._cluster
        local = self.local = LocalStorage(
            _ROOT, LocalSettings(max_open_files=100, min_free_bytes=0, few_logs=FEW_LOGS), system
        )
        await local.open()
        client = CoordinationClient(cluster.model, self.number)
        incarnation = await local.next_start_epoch()
        self._lost_at = CleanStop(_ROOT, self._files).take(incarnation)
        member = Member(self.number, incarnation, self._lost_at)
        node = ReplicatedNode(member, local, client, NodeLinks(cluster.network, self.number), SETTINGS)
        await node.open()
        host = Host(node, cluster.catalogue, self.clock, self._chance, cluster.on_error)
        self.node, self.host = node, host
        cluster.network.processes[self.number] = loop, self._handle
        begin = loop.create_task
        self._tasks = [begin(host.run()), begin(host.maintain()), begin(self._renew(client, member))]

    async def _renew(self, client: CoordinationClient, member: Member) -> None:
        while True:
            try:
                await client.renew(member.incarnation, member.lost_at)
            except CoordinationUnavailable:
                continue
            await asyncio.sleep(_RENEW_SECONDS)

    async def _handle(self, message: Any) -> Any:
        if self.host is None or self.node is None:
            raise NotLeader(what="a node that stops")
        if isinstance(message, Publish):
            return await self.host.publish(message)
        if isinstance(message, DeleteLog):
            return await self.host.delete(message)
        return await self.node.handle(*message)
