"""A log with three replicas: what is committed, who is in sync, and what a new leader does."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from quiver.model.errors import NotEnoughReplicas, NotLeader, NotSupported
from quiver.records.header import StampedFrame
from quiver.replication.leading import ReplicationSettings
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions
from quiver.testing.replication.direct import ReplicaGroup
from quiver.testing.replication.node import stored_values
from unit.log.frames import frame_at

LOG = "topics/1/0"
QUICK = ReplicationSettings(call_seconds=1.0, idle_seconds=0.02, lag_seconds=0.2)


class Replicas(ReplicaGroup):
    def __init__(self) -> None:
        self.locals = [MemoryStorage(), MemoryStorage(), MemoryStorage()]
        super().__init__(self.locals, QUICK)

    async def stored(self, node: int) -> list[tuple[int, bytes]]:
        log = await self.locals[node].open_log(LOG, LogOptions())
        return await stored_values(log, log.end_offset)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await self.nodes[0].changed()


@pytest.fixture
async def group() -> AsyncIterator[Replicas]:
    group = Replicas()
    await group.open()
    yield group
    await group.close()


def frames(first: int, count: int, epoch: int = 1) -> list[StampedFrame]:
    return [frame_at(first + n, body=b"%d of %d" % (first + n, epoch), epoch=epoch) for n in range(count)]


async def test_followers_have_the_same_bytes(group: Replicas) -> None:
    log = await group.nodes[0].open_log(LOG, LogOptions())
    assert log.leader_epoch == 1
    for first in range(0, 50, 5):
        await log.append(frames(first, 5))
        assert log.readable_offset == first + 5
    assert len(await group.stored(0)) == 50
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)
    with pytest.raises(NotSupported):
        await log.truncate(10)
    with pytest.raises(NotLeader):
        await log.append(frames(50, 1, epoch=2))
    with pytest.raises(NotLeader):
        await group.nodes[1].open_log(LOG, LogOptions())


async def test_a_follower_leaves_the_set_and_comes_back(group: Replicas) -> None:
    log = await group.nodes[0].open_log(LOG, LogOptions())
    await log.append(frames(0, 3))
    group.cut_off.add(2)
    await log.append(frames(3, 3))  # waits until the set is smaller
    assert group.unit(LOG).isr == (0, 1)
    group.cut_off.add(1)
    waiting = asyncio.ensure_future(log.append(frames(6, 1)))
    await group.until(lambda: group.unit(LOG).isr == (0,))
    assert group.unit(LOG).elr == (1,)
    assert (log.readable_offset, log.end_offset) == (6, 7)
    assert "1 replicas are in sync" in str(log.outage)
    with pytest.raises(NotEnoughReplicas):
        await log.append(frames(7, 1))
    assert await log.read(6, max_bytes=100) is None
    assert await log.count_by_priority(0) == [0, 0, 6, 0, 0]
    assert await log.find_priority(6, 0b11111) is None
    group.cut_off.clear()
    await waiting
    await group.until(lambda: len(group.unit(LOG).isr) == 3)
    assert group.unit(LOG).elr == ()
    await log.append(frames(7, 1))
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)


async def test_a_new_leader_keeps_what_was_committed_and_nothing_else(group: Replicas) -> None:
    old = await group.nodes[0].open_log(LOG, LogOptions())
    await old.append(frames(0, 4))
    group.cut_off |= {1, 2}
    waiting = asyncio.ensure_future(old.append(frames(4, 2)))  # is written, and reaches nobody
    while old.end_offset < 6:
        await asyncio.sleep(0)
    unit = group.unit(LOG)
    await group.write(LOG, msgspec.structs.replace(unit, leader=1, epoch=unit.epoch + 1, isr=(0, 1, 2)))
    with pytest.raises(NotLeader):
        await waiting
    assert old.is_over
    group.cut_off.clear()
    new = await group.nodes[1].open_log(LOG, LogOptions())
    await new.append(frames(4, 1, epoch=2))
    with pytest.raises(NotLeader):
        await old.append(frames(6, 1))
    await group.until(lambda: len(group.unit(LOG).isr) == 3)
    await new.append(frames(5, 1, epoch=2))
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)
    assert [offset for offset, _ in await group.stored(0)] == [0, 1, 2, 3, 4, 5]
    assert b"4 of 2" in (await group.stored(0))[4][1]


async def test_a_leader_that_was_started_again_does_not_lead_its_old_epoch(group: Replicas) -> None:
    await group.nodes[0].open_log(LOG, LogOptions())
    unit = group.unit(LOG)
    await group.write(LOG, msgspec.structs.replace(unit, incarnation=9, epoch=2))
    assert not group.nodes[0].leads(LOG)
    with pytest.raises(NotLeader):
        await group.nodes[0].open_log(LOG, LogOptions())
