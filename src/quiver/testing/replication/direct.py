"""Replicas in one process that call each other directly."""

import asyncio
from collections.abc import Sequence

from quiver.replication.leading import ReplicationSettings
from quiver.replication.messages import Message, Position
from quiver.replication.storage import Member, ReplicatedStorage
from quiver.replication.unit import Unit
from quiver.storage.port import Storage
from quiver.testing.memory_coordination import MemoryCoordination


class DirectLinks:
    def __init__(self, nodes: Sequence[ReplicatedStorage]) -> None:
        self._nodes = nodes

    async def call(self, node: int, message: Message) -> Position:
        await asyncio.sleep(0)
        return await self._nodes[node].handle(message)


async def open_replicas(locals_: Sequence[Storage], settings: ReplicationSettings) -> list[ReplicatedStorage]:
    """A node on each local engine. The first one leads every log, and all of them have replicas."""
    coordination = MemoryCoordination()
    nodes: list[ReplicatedStorage] = []
    everybody = tuple(range(len(locals_)))
    unit = Unit(replicas=everybody, isr=everybody, leader=0, incarnation=1, epoch=1, min_isr=2)
    for number, local in enumerate(locals_):
        member = Member(number, 1)
        nodes.append(ReplicatedStorage(member, local, coordination, DirectLinks(nodes), settings, lambda _: unit))
    for node in nodes:
        await node.open()
    return nodes
