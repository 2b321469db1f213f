"""Workers with three replicas: what is committed, who is in sync, and what a new leader does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from quiver.model.errors import NotEnoughReplicas, NotLeader, NotSupported
from quiver.records.header import StampedFrame
from quiver.replication.settings import ReplicationSettings
from quiver.replication.unit import start_epoch
from quiver.storage.local.settings import LocalSettings
from quiver.storage.local.storage import LocalStorage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import LogOptions, Storage
from quiver.testing.replication.direct import ReplicaGroup
from quiver.testing.replication.frames import stored_values
from unit.log.frames import frame_at

LOG, OTHER = "topics/1/0", "topics/2/0"
QUICK = ReplicationSettings(call_seconds=5.0, idle_seconds=0.02, lag_seconds=0.4)
OPTIONS = LogOptions()
SMALL = LogOptions(segment_bytes=1)
INTERVAL = LogOptions(durability="interval")


class Replicas(ReplicaGroup):
    def __init__(self, settings: ReplicationSettings = QUICK) -> None:
        self.locals: list[Storage] = [MemoryStorage(), MemoryStorage(), MemoryStorage()]
        super().__init__(self.locals, settings)

    async def stored(self, node: int, log_id: str = LOG) -> list[tuple[int, bytes]]:
        log = await self.locals[node].open_log(f"units/0/{log_id}", OPTIONS)
        return await stored_values(log, log.end_offset)

    async def starts(self) -> list[int]:
        return [(await local.open_log(f"units/0/{LOG}", OPTIONS)).start_offset for local in self.locals]

    async def logs(self) -> list[list[str]]:
        return [await local.list_logs() for local in self.locals]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await self.nodes[0].changed.wait()

    async def until_same(self, wanted: Callable[[], "asyncio.Future[object]"]) -> None:
        async with asyncio.timeout(30):
            while not await wanted():
                await asyncio.sleep(0)

    async def elect(self, node: int, **fields: object) -> None:
        unit = self.unit()
        incarnation = self.nodes[node].member.incarnation
        changed = {"leader": node, "incarnation": incarnation, "epoch": unit.epoch + 1, **fields}
        await self.write(msgspec.structs.replace(unit, **changed))


@pytest.fixture
async def group() -> AsyncIterator[Replicas]:
    group = Replicas()
    await group.open()
    yield group
    await group.close()


def frames(first: int, count: int, epoch: int = 1) -> list[StampedFrame]:
    return [
        frame_at(first + n, body=b"%d of %d" % (first + n, epoch), epoch=start_epoch(0, epoch)) for n in range(count)
    ]


async def test_followers_have_the_same_bytes(group: Replicas) -> None:
    storage = await group.lead()
    assert await storage.next_start_epoch() == start_epoch(0, 1)
    log = await storage.open_log(LOG, OPTIONS)
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
        await group.lead(node=1)


async def test_a_follower_leaves_the_set_and_comes_back(group: Replicas) -> None:
    storage = await group.lead()
    log = await storage.open_log(LOG, OPTIONS)
    await log.append(frames(0, 3))
    group.cut_off.add(2)
    await log.append(frames(3, 3))  # waits until the set is smaller
    assert group.unit().isr == (0, 1)
    group.cut_off.add(1)
    waiting = asyncio.ensure_future(log.append(frames(6, 1)))
    await group.until(lambda: group.unit().isr == (0,))
    assert group.unit().elr == (1,)
    assert (log.readable_offset, log.end_offset) == (6, 7)
    assert "has 1 replicas in sync" in str(log.outage)
    with pytest.raises(NotEnoughReplicas):
        await log.append(frames(7, 1))
    assert await log.read(6, max_bytes=100) is None
    assert await log.count_by_priority(0) == [0, 0, 6, 0, 0]
    assert await log.find_priority(6, 0b11111) is None
    [status] = group.nodes[0].status()
    assert status.is_led_here
    assert status.lag_bytes[1] > 0
    group.cut_off.clear()
    await waiting
    await group.until(lambda: len(group.unit().isr) == 3)
    assert group.unit().elr == ()
    await log.append(frames(7, 1))
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)
    assert group.nodes[0].status()[0].lag_bytes == {1: 0, 2: 0}


async def test_a_new_leader_keeps_what_was_committed_and_nothing_else(group: Replicas) -> None:
    storage = await group.lead()
    old = await storage.open_log(LOG, OPTIONS)
    await old.append(frames(0, 4))
    group.cut_off |= {1, 2}
    waiting = asyncio.ensure_future(old.append(frames(4, 2)))  # is written, and reaches nobody
    while old.end_offset < 6:
        await asyncio.sleep(0)
    await group.elect(1, isr=(0, 1, 2))
    with pytest.raises(NotLeader):
        await waiting
    assert storage.deposed.is_set()
    group.cut_off.clear()
    new = await (await group.lead(node=1)).open_log(LOG, OPTIONS)
    await new.append(frames(4, 1, epoch=2))
    with pytest.raises(NotLeader):
        await old.append(frames(6, 1))
    await group.until(lambda: len(group.unit().isr) == 3)
    await new.append(frames(5, 1, epoch=2))
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)
    assert [offset for offset, _ in await group.stored(0)] == [0, 1, 2, 3, 4, 5]
    assert b"4 of 2" in (await group.stored(0))[4][1]


async def test_each_start_has_an_epoch_of_its_own(group: Replicas) -> None:
    before = await group.lead()
    log = await before.open_log(LOG, OPTIONS)
    await group.nodes[0].release(0)
    again = await group.lead()
    assert before.deposed.is_set()
    assert await again.next_start_epoch() == start_epoch(0, 2)
    with pytest.raises(NotLeader):
        await log.append(frames(0, 1))
    await group.elect(0, incarnation=9)
    assert not group.nodes[0].leads(0)
    with pytest.raises(NotLeader):
        await group.lead()


async def test_logs_are_made_and_removed_everywhere(group: Replicas) -> None:
    storage = await group.lead()
    for log_id in (LOG, f"{LOG}-delivery", OTHER):
        await (await storage.open_log(log_id, OPTIONS)).append(frames(0, 1))
    assert await storage.list_logs("topics/1") == [LOG, f"{LOG}-delivery"]
    await storage.delete_logs("topics/1")
    assert await group.logs() == [[f"units/0/{OTHER}"]] * 3
    again = await storage.open_log(LOG, OPTIONS)
    await again.append(frames(0, 2))
    assert await group.stored(2) == await group.stored(0)
    group.cut_off.add(2)
    await again.append(frames(2, 1))
    assert group.unit().isr == (0, 1)
    await storage.discard_logs("topics/2")
    await (await storage.open_log("topics/3/0", OPTIONS)).append(frames(0, 1))
    assert (await group.logs())[2] == ["units/0/topics/1/0", "units/0/topics/2/0"]
    group.cut_off.clear()
    await group.until(lambda: len(group.unit().isr) == 3)
    assert await group.logs() == [["units/0/topics/1/0", "units/0/topics/3/0"]] * 3


async def test_the_front_goes_when_the_snapshot_is_there(group: Replicas) -> None:
    storage = await group.lead()
    log = await storage.open_log(LOG, SMALL)
    await log.append(frames(0, 10))
    group.cut_off.add(2)
    await log.append(frames(10, 10))
    await log.save_snapshot(12, b"twelve" * 1000)
    assert await log.drop_front(12) == 12
    group.cut_off.clear()
    await group.until(lambda: len(group.unit().isr) == 3)
    await log.append(frames(20, 1))
    for local in group.locals:
        follower = await local.open_log(f"units/0/{LOG}", SMALL)
        snapshot = await follower.load_snapshot()
        assert snapshot == (12, b"twelve" * 1000)
        assert (await stored_values(follower, 21))[-9:] == await group.stored(0)


async def test_a_purge_reaches_followers(group: Replicas) -> None:
    log = await (await group.lead()).open_log(LOG, OPTIONS)
    await log.append(frames(0, 10))
    await log.roll()
    assert await log.drop_front(10) == 10
    await log.append(frames(10, 1))
    assert await group.starts() == [10, 10, 10]


async def test_a_topic_may_want_more_replicas_than_its_unit(group: Replicas) -> None:
    storage = await group.lead()
    log, other = await storage.open_log(LOG, LogOptions(min_replicas=3)), await storage.open_log(OTHER, OPTIONS)
    await log.append(frames(0, 1))
    group.cut_off.add(2)
    waiting = asyncio.ensure_future(log.append(frames(1, 1)))
    await other.append(frames(0, 1))  # waits until the set is smaller
    assert group.unit().isr == (0, 1)
    assert (log.readable_offset, log.end_offset) == (1, 2)
    assert "has 2 replicas in sync and needs 3" in str(log.outage)
    assert group.nodes[0].status()[0].refusing_count == 1
    assert other.outage is None
    with pytest.raises(NotEnoughReplicas):
        await log.append(frames(2, 1))
    assert not waiting.done()
    log.configure(LogOptions(min_replicas=2))
    await waiting
    await log.append(frames(2, 1))
    log.configure(LogOptions(min_replicas=3))
    waiting = asyncio.ensure_future(other.append(frames(1, 1)))
    group.cut_off.clear()
    await group.until(lambda: len(group.unit().isr) == 3)
    await log.append(frames(3, 1))
    await waiting
    assert group.nodes[0].status()[0].refusing_count == 0


async def test_a_new_leader_serves_a_topic_that_wants_more_replicas_than_there_are(group: Replicas) -> None:
    log = await (await group.lead()).open_log(LOG, LogOptions(min_replicas=3))
    await log.append(frames(0, 2))
    group.cut_off.add(2)
    await group.until(lambda: group.unit().isr == (0, 1))
    await group.elect(1)
    again = await (await group.lead(node=1)).open_log(LOG, LogOptions(min_replicas=3))
    assert again.readable_offset == 2
    with pytest.raises(NotEnoughReplicas):
        await again.append(frames(2, 1, epoch=2))


async def test_a_member_that_may_have_lost_something_leaves_and_joins_again(group: Replicas) -> None:
    storage = await group.lead()
    log = await storage.open_log(LOG, INTERVAL)
    assert group.unit().is_volatile
    await log.append(frames(0, 3))
    await log.sync()
    seen: list[tuple[int, ...]] = []
    await group.nodes[2].close()
    await group.restart(2, group.locals[2], is_clean=False)
    async with asyncio.timeout(30):
        while group.unit().joined[2] == 1 if 2 in group.unit().joined else True:
            seen.append(group.unit().isr)
            await group.nodes[0].changed.wait()
    assert (0, 1) in seen
    assert group.unit().joined == {0: 1, 1: 1, 2: 2}
    await log.append(frames(3, 1))
    assert await group.stored(2) == await group.stored(0)


async def test_offsets_are_left_out_where_everybody_may_have_lost_some(group: Replicas) -> None:
    storage = await group.lead()
    await (await storage.open_log(LOG, INTERVAL)).append(frames(0, 3))
    await (await storage.open_log(OTHER, OPTIONS)).append(frames(0, 3))
    await group.elect(1, loss_epoch=2)
    storage = await group.lead(node=1)
    log, other = await storage.open_log(LOG, INTERVAL), await storage.open_log(OTHER, OPTIONS)
    assert log.end_offset > 1000
    assert other.end_offset == 3
    await log.append(frames(log.end_offset, 1, epoch=2))
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)
    assert len(await group.stored(0)) == 4


async def test_offsets_are_left_out_also_by_the_leader_after_one_that_served_nothing(group: Replicas) -> None:
    storage = await group.lead()
    await (await storage.open_log(LOG, INTERVAL)).append(frames(0, 3))
    await group.elect(1, loss_epoch=2)
    await group.elect(2)
    log = await (await group.lead(node=2)).open_log(LOG, INTERVAL)
    left_out = log.end_offset
    assert left_out > 1000
    await group.elect(0)
    log = await (await group.lead(node=0)).open_log(LOG, INTERVAL)
    assert log.end_offset == left_out


async def test_a_replica_that_has_only_reserved_offsets_gets_the_frames_that_are_there(
    group: Replicas, tmp_path: Path
) -> None:
    local = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
    await local.open()
    reserved = await local.open_log(f"units/0/{LOG}", OPTIONS)
    await reserved.skip_to(1000)
    assert reserved.start_offset == 1000
    storage = await group.lead()
    log = await storage.open_log(LOG, OPTIONS)
    await log.append(frames(0, 3))
    await group.nodes[2].close()
    group.locals[2] = local
    await group.restart(2, local)
    await log.append(frames(3, 1))
    await group.until(lambda: 2 in group.unit().isr)
    assert len(await group.stored(2)) == 4
    assert await group.stored(2) == await group.stored(0)


async def test_replicas_move(group: Replicas) -> None:
    """A unit of two nodes gets a third one in the place of the second."""
    await group.write(msgspec.structs.replace(group.unit(), replicas=(0, 1), isr=(0, 1), epoch=2))
    storage = await group.lead()
    log = await storage.open_log(LOG, OPTIONS)
    await log.append(frames(0, 5, epoch=2))
    assert await group.stored(2) == []
    unit = group.unit()
    await group.write(msgspec.structs.replace(unit, replicas=(0, 2, 1), adding=(2,), removing=(1,)))
    await group.until(lambda: 2 in group.unit().isr)
    await group.write(msgspec.structs.replace(group.unit(), replicas=(0, 2), isr=(0, 2), adding=(), removing=()))
    await log.append(frames(5, 1, epoch=2))
    assert len(await group.stored(2)) == 6
    async with asyncio.timeout(30):
        while await group.locals[1].list_logs():
            await asyncio.sleep(0)


@pytest.fixture
async def patient_group() -> AsyncIterator[Replicas]:
    """Whose in-sync set stays as it is."""
    group = Replicas(QUICK._replace(lag_seconds=60.0))
    await group.open()
    yield group
    await group.close()


async def test_an_append_need_not_wait_for_followers(patient_group: Replicas) -> None:
    group = patient_group
    log = await (await group.lead()).open_log(LOG, OPTIONS)
    await log.append(frames(0, 1))
    group.cut_off |= {1, 2}
    await log.append(frames(1, 1), alone=True)
    assert (log.readable_offset, log.end_offset) == (1, 2), "nobody else has it"
    raised = asyncio.Event()
    log.notify_readable(raised.set)
    group.cut_off.clear()
    async with asyncio.timeout(30):
        while log.readable_offset < 2:
            await raised.wait()
            raised.clear()
    assert await group.stored(0) == await group.stored(1) == await group.stored(2)
