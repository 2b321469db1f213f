"""Queue groups on a partition that is compacted under them: what has gone is settled, and nothing is mixed up."""

import random
from collections.abc import AsyncIterator

import pytest

from quiver.model.errors import SettleInOrder
from quiver.model.settlement import ACK, NACK, REJECT
from quiver.partition.compaction import compact
from quiver.queues.partition.frame_cache import FrameCache
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.records.read import open_frame
from quiver.structures.interval_set import IntervalSet
from unit.queues.partition.queue_partition import GROUP, DeliveredRun, QueuePartition, numbered, offsets

KEYS = 10


@pytest.fixture
async def jobs() -> AsyncIterator[QueuePartition]:
    queue = QueuePartition(cleanup="compact")
    await queue.open()
    yield queue
    await queue.close()


async def publish(jobs: QueuePartition, count: int, start: int = 0) -> None:
    keys = [b"key %d" % (number % KEYS) for number in range(start, start + count)]
    await jobs.publish(*numbered(count, start), keys=keys)


async def compacted(jobs: QueuePartition) -> None:
    """Compacts, and forgets frames that were read before."""
    await compact(jobs.partition, jobs.config, jobs.clock.ms, roll=True)
    jobs.cache.forget(jobs.partition)


def rows(received: list[DeliveredRun]) -> list[tuple[int, bytes | None]]:
    return [
        (offset, value)
        for run in received
        for offset, value in zip(open_frame(run.frame).offsets(), open_frame(run.frame).values(), strict=True)
    ]


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_what_goes_under_a_lease_is_settled_when_it_comes_back(jobs: QueuePartition, ordering: str) -> None:
    await jobs.begin(ordering=ordering)
    await publish(jobs, 20)
    await publish(jobs, 15, 20)  # of the keys 0 to 4 the last is in the middle of the frame, at 30
    received = await jobs.receive(100)
    while more := await jobs.receive(100):
        received += more
    assert sorted(offsets(received))[0] == 0
    await compacted(jobs)
    for run in reversed(received):  # in a group by key, what is behind one that is given back comes back with it
        await jobs.settle(run, NACK, delay_ms=0)
    seen: list[tuple[int, bytes | None]] = []
    for _ in range(20):
        for run in await jobs.receive(100):
            seen += rows([run])
            assert (await jobs.settle(run, ACK)).refused == []
    assert sorted(seen) == [(offset, b"%d" % offset) for offset in range(25, 35)]
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 0
    state = jobs.partition_queue.state(GROUP)
    assert state is not None
    assert (state.lowest_unsettled(), sum(state.counts()[:3])) == (35, 0)


async def test_what_was_read_ahead_and_goes_before_it_is_delivered(jobs: QueuePartition) -> None:
    await jobs.begin()
    await publish(jobs, 35)
    await jobs.partition_queue.issuer.read_ahead(GROUP, count=100, levels=1 << 2)
    await compacted(jobs)
    received = await jobs.receive(100)
    assert rows(received) == [(offset, b"%d" % offset) for offset in range(25, 35)]
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 0


async def test_a_lease_outlives_its_messages(jobs: QueuePartition) -> None:
    """An ack, an expiry and a reject of what is gone are as good as others."""
    await jobs.begin()
    await publish(jobs, 35)
    acked, expired, rejected = [await jobs.receive(5) for _ in range(3)]
    await compacted(jobs)
    assert (await jobs.settle(acked[0])).refused == []
    assert (await jobs.settle(rejected[0], REJECT, reason="no")).refused == []
    await jobs.wait(30_001)
    assert offsets(expired) == [5, 6, 7, 8, 9]
    assert rows(await jobs.receive(100)) == [(offset, b"%d" % offset) for offset in range(25, 35)]
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 0


async def test_it_is_settled_after_a_restart_too(jobs: QueuePartition) -> None:
    await jobs.begin()
    await publish(jobs, 35)
    await jobs.receive(100, visibility_ms=1_000)
    await compacted(jobs)
    await jobs.restart()
    jobs.cache = FrameCache()
    await jobs.wait(1_001)
    assert rows(await jobs.receive(100)) == [(offset, b"%d" % offset) for offset in range(25, 35)]
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 0


async def test_what_was_aborted_is_not_given_out_when_it_is_forgotten(jobs: QueuePartition) -> None:
    """One group has read the frames; two passes later nobody knows any more that they were aborted."""
    await jobs.begin()
    await publish(jobs, 5)
    await jobs.publish(b"no", keys=[b"other"], producer_id=3, producer_epoch=0, base_sequence=0, transactional=True)
    await jobs.partition.append_marker(3, 0, commit=False)
    await publish(jobs, 5, 5)
    assert offsets(await jobs.receive(100)) == [0, 1, 2, 3, 4, *range(7, 12)]
    for _ in range(2):
        await compact(jobs.partition, jobs.config, jobs.clock.ms, roll=True)
    assert not jobs.partition.tables.transactions.is_aborted_at(3, 5)
    await jobs.begin(8)
    assert offsets(await jobs.receive(100, group=8)) == [0, 1, 2, 3, 4, *range(7, 12)]


async def test_expired_and_removed_messages_between_holes(jobs: QueuePartition) -> None:
    await jobs.begin()
    times = [jobs.clock.ms + (10 if number % 2 else 10**9) for number in range(30)]
    keys = [b"key %d" % (number % KEYS) for number in range(30)]
    frame = build_frame(numbered(30), keys=keys, timestamp_ms=jobs.clock.ms, expires_at_ms=times)
    await jobs.partition.append(frame, unpack_header(frame))
    await jobs.partition_queue.issuer.read_ahead(GROUP, count=100, levels=1 << 2)
    await compacted(jobs)
    await jobs.wait(100)
    assert rows(await jobs.receive(100)) == [(offset, b"%d" % offset) for offset in range(20, 30, 2)]


class History:
    """A worker that holds some messages and settles them as they come."""

    def __init__(self, jobs: QueuePartition, chance: random.Random) -> None:
        self._jobs = jobs
        self._chance = chance
        self.held: list[DeliveredRun] = []
        self.acked: set[int] = set()
        self.published = 0

    async def publish(self) -> None:
        count = self._chance.randrange(1, 30)
        await publish(self._jobs, count, self.published)
        self.published += count

    async def receive(self) -> None:
        size = self._chance.choice([700, 1 << 20])
        received = await self._jobs.receive(self._chance.randrange(1, 20), max_bytes=size)
        assert all(value == b"%d" % offset for offset, value in rows(received))
        self.held += received

    async def settle(self, run: DeliveredRun, action: int) -> None:
        self.held.remove(run)
        options = {} if action == ACK else {"delay_ms": 0, "is_counted": False}
        settled = await self._jobs.settle(run, action, **options)
        refused = IntervalSet((each.start, each.end) for each in settled.refused)
        if any(isinstance(each.error, SettleInOrder) for each in settled.refused):
            self.held.append(run)
        if action == ACK:
            self.acked |= {offset for gap in refused.gaps(run.start, run.end) for offset in range(*gap)}

    async def finish(self) -> None:
        """Everything is acked, the oldest first."""
        state = self._jobs.partition_queue.state(GROUP)
        assert state is not None
        for _ in range(3 * self.published):
            for run in sorted(self.held, key=lambda each: each.start):
                await self.settle(run, ACK)
            if state.lowest_unsettled() == self.published:
                return
            await self.receive()
        raise AssertionError(f"the group stays at {state.lowest_unsettled()} of {self.published}")


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("seed", range(5))
async def test_random_histories(jobs: QueuePartition, ordering: str, seed: int) -> None:
    """Every message that is delivered is the one of its offset, the last of each key comes through, none is left."""
    chance = random.Random(seed)
    history = History(jobs, chance)
    await jobs.begin(ordering=ordering)
    for _ in range(150):
        step = chance.random()
        if step < 0.3:
            await history.publish()
        elif step < 0.6:
            await history.receive()
        elif step < 0.85:
            if history.held:
                await history.settle(chance.choice(history.held), chance.choice([ACK, NACK]))
        else:
            await compacted(jobs)
    await history.finish()
    assert set(range(max(0, history.published - KEYS), history.published)) <= history.acked
    assert jobs.partition_queue.counters_by_group[GROUP].lost == 0
