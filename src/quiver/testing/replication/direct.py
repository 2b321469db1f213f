"""Nodes in one process that call each other directly."""

import asyncio
from collections.abc import Sequence

from quiver.coordination.port import Expected, Put
from quiver.model.errors import ConnectionLost
from quiver.replication.leading.storage import UnitStorage
from quiver.replication.messages import Buffer, Message, Position, decode_message, decode_position, encode
from quiver.replication.node import ReplicatedNode, write_new_unit
from quiver.replication.settings import Member, ReplicationSettings
from quiver.replication.unit import Unit, unit_key
from quiver.storage.port import Storage
from quiver.testing.memory_coordination import MemoryCoordination


class ReplicaGroup:
    """A node on each local engine, all of them with a replica of every worker; the first one leads.

    Messages go through their codec.
    """

    def __init__(self, locals_: Sequence[Storage], settings: ReplicationSettings, *, workers: int = 1) -> None:
        self.coordination = MemoryCoordination()
        self.cut_off: set[int] = set()
        """Nodes that nobody reaches."""
        self.everybody = tuple(range(len(locals_)))
        self._workers, self._settings, self._locals = workers, settings, list(locals_)
        self.nodes = [self._new_node(Member(number, 1), local) for number, local in enumerate(locals_)]

    def _new_node(self, member: Member, local: Storage) -> ReplicatedNode:
        return ReplicatedNode(member, local, self.coordination, self, self._settings)

    async def open(self) -> None:
        joined = dict.fromkeys(self.everybody, 1)
        for worker in range(self._workers):
            unit = Unit(
                replicas=self.everybody,
                isr=self.everybody,
                leader=0,
                incarnation=1,
                epoch=1,
                min_isr=2,
                joined=joined,
            )
            await write_new_unit(self.coordination, worker, unit)
        for node in self.nodes:
            await node.open()

    async def close(self) -> None:
        for node in self.nodes:
            await node.close()
        for local in self._locals:
            await local.close()

    async def restart(self, number: int, local: Storage, *, is_clean: bool = True) -> None:
        """The node of a number starts again, on an engine that is open; the one before is gone already."""
        before = self.nodes[number].member
        lost_at = before.lost_at if is_clean else before.incarnation + 1
        self._locals[number] = local
        self.nodes[number] = self._new_node(Member(number, before.incarnation + 1, lost_at), local)
        await self.nodes[number].open()

    async def lead(self, worker: int = 0, node: int = 0) -> UnitStorage:
        return await self.nodes[node].lead(worker)

    async def call(self, node: int, message: Message, payload: Sequence[Buffer] = ()) -> Position:
        await asyncio.sleep(0)
        if node in self.cut_off:
            raise ConnectionLost(address=f"node {node}", problem="it is cut off")
        sent = decode_message(encode(message))
        return decode_position(encode(await self.nodes[node].handle(sent, b"".join(payload))))

    def unit(self, worker: int = 0) -> Unit:
        found = self.nodes[0].unit(worker)
        assert found is not None
        return found[0]

    async def write(self, unit: Unit, worker: int = 0) -> None:
        """What a controller decides. Returns when all nodes know it."""
        key = unit_key(worker)
        found = await self.coordination.get(key)
        assert found is not None
        outcome = await self.coordination.commit([Expected(key, found.revision)], [Put(key, unit.key_value)])
        assert outcome.succeeded
        for node in self.nodes:
            while (known := node.unit(worker)) is None or known[1] < outcome.revision:
                await node.changed.wait()
