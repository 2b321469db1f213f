"""Replicas in one process that call each other directly."""

import asyncio
from collections.abc import Sequence

from quiver.coordination.port import Expected, Put
from quiver.model.errors import ConnectionLost
from quiver.replication.leading import ReplicationSettings
from quiver.replication.messages import Message, Position
from quiver.replication.storage import PREFIX, Member, ReplicatedStorage
from quiver.replication.unit import Unit
from quiver.storage.port import Storage
from quiver.testing.memory_coordination import MemoryCoordination


class ReplicaGroup:
    """A node on each local engine. The first one leads every log, and all of them have replicas."""

    def __init__(self, locals_: Sequence[Storage], settings: ReplicationSettings) -> None:
        self._coordination = MemoryCoordination()
        self.cut_off: set[int] = set()
        """Nodes that nobody reaches."""
        everybody = tuple(range(len(locals_)))
        unit = Unit(replicas=everybody, isr=everybody, leader=0, incarnation=1, epoch=1, min_isr=2)
        self.nodes = [
            ReplicatedStorage(Member(number, 1), local, self._coordination, self, settings, lambda _: unit)
            for number, local in enumerate(locals_)
        ]

    async def open(self) -> None:
        for node in self.nodes:
            await node.open()

    async def close(self) -> None:
        for node in self.nodes:
            await node.close()

    async def call(self, node: int, message: Message) -> Position:
        await asyncio.sleep(0)
        if node in self.cut_off:
            raise ConnectionLost(address=f"node {node}", problem="it is cut off")
        return await self.nodes[node].handle(message)

    def unit(self, log_id: str) -> Unit:
        return self.nodes[0].units[log_id][0]

    async def write(self, log_id: str, unit: Unit) -> None:
        """What a controller decides. Returns when all nodes know it."""
        key = PREFIX + log_id
        outcome = await self._coordination.commit(
            [Expected(key, self.nodes[0].units[log_id][1])], [Put(key, unit.key_value)]
        )
        assert outcome.succeeded
        for node in self.nodes:
            while node.units[log_id][1] < outcome.revision:
                await node.changed()
