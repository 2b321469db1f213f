"""What the latency job makes of a delivery journal, against what consumers saw while it was written."""

import asyncio
import random
from typing import Any

import pytest

from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.partition.settings import log_options
from quiver.reader.delivery_history import Acknowledged, DeadLettered, Delivered, DeliveryHistory, Fact
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame, split_frames
from quiver.storage.journal import OPTIONS_FOR_WRITE
from quiver_spark.jobs.latency.histogram import Histogram
from quiver_spark.jobs.latency.samples import MEASURES, NAMES, Samples, StoredTimes, Window
from unit.queues.partition.queue_partition import GROUP, QueuePartition, numbered

Place = tuple[int, int]
"""Offset and attempt."""


class World:
    """A partition in use, and what its consumers saw."""

    def __init__(self, seed: int, ordering: str) -> None:
        self.chance = random.Random(seed)
        self.ordering = ordering
        self.queue = QueuePartition()
        self.held: list[Any] = []
        self.delivered: dict[Place, int] = {}
        """The last time: one before it with the same attempt was given back and did not count."""
        self.leases: dict[tuple[int, int], int] = {}
        self.acked: dict[int, tuple[int, int]] = {}
        """When, and when it was delivered."""
        self.published: dict[int, int] = {}

    async def run(self) -> None:
        await self.queue.open()
        await self.queue.begin(ordering=self.ordering)
        for _ in range(120):
            self.queue.clock.ms += self.chance.randrange(40)
            step = self.chance.choice(
                [self.publish, self.receive, self.receive, self.settle, self.settle, self.pause]
            )
            await step()
        await self.queue.wait(100_000)
        while await self.receive(1000):
            while self.held:
                await self.settle_one(self.held[0], ACK)
            await self.queue.wait(100_000)

    async def publish(self) -> None:
        count = self.chance.randrange(1, 30)
        keys = [b"k%d" % self.chance.randrange(6) for _ in range(count)]
        appended = await self.queue.publish(*numbered(count), keys=keys)
        for offset in range(appended.base_offset, appended.base_offset + count):
            self.published[offset] = self.queue.clock.ms

    async def receive(self, count: int | None = None) -> int:
        most = count or self.chance.randrange(1, 40)
        max_bytes = 1 << 20 if count else self.chance.choice([1, 1 << 20])
        runs = await self.queue.receive(most, visibility_ms=300, max_bytes=max_bytes)
        for run in runs:
            for offset in range(run.start, run.end):
                self.delivered[offset, run.attempt] = self.leases[run.lease_id, offset] = self.queue.clock.ms
                self.held.append((run, offset))
        return len(runs)

    async def settle(self) -> None:
        if self.held:
            action = self.chance.choice([ACK, ACK, ACK, NACK, REJECT, EXTEND])
            await self.settle_one(self.chance.choice(self.held[:4]), action)

    async def settle_one(self, one: Any, action: int) -> None:
        run, offset = one
        options: dict[str, Any] = {}
        if action == NACK:
            options = {"delay_ms": self.chance.randrange(50), "is_counted": self.chance.random() < 0.6}
        done = await self.queue.settle(run, action, [(offset, offset + 1)], **options)
        if action != EXTEND or done.refused:
            self.held.remove(one)
        if action == ACK and not done.refused:
            self.acked[offset] = (self.queue.clock.ms, self.leases[run.lease_id, offset])

    async def pause(self) -> None:
        await self.queue.wait(self.chance.randrange(400))

    async def journal(self) -> list[tuple[int, bytes]]:
        found = []
        for header, position, data in await self._frames("topics/1/0-delivery", OPTIONS_FOR_WRITE):
            found += [(header.append_time_ms, record or b"") for record in open_frame(data, position).values()]
        return found

    async def headers(self) -> list[FrameHeader]:
        return [header for header, _, _ in await self._frames("topics/1/0", log_options(self.queue.config))]

    async def _frames(self, log_id: str, options: Any) -> list[tuple[FrameHeader, int, Any]]:
        log = await self.queue.storage.open_log(log_id, options)
        found, offset = [], log.start_offset
        while (part := await log.read(offset, max_bytes=1 << 22)) is not None:
            data = await part.read()
            part.release()
            for position, header in split_frames(data):
                found.append((header, position, data))
                offset = header.next_offset
        return found


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("seed", range(6))
async def test_a_real_journal_tells_what_consumers_saw(seed: int, ordering: str) -> None:
    world = World(seed, ordering)
    await world.run()
    facts: list[Fact] = []
    headers = await world.headers()
    samples = Samples(Window(), lambda start, end: StoredTimes.of(headers))

    history = DeliveryHistory()
    for at_ms, record in await world.journal():
        facts += history.apply_record(at_ms, record)
    facts += history.finish()
    samples.add_all(facts)
    await asyncio.sleep(0)
    delivered = [(n, fact.attempt, fact.at_ms) for fact in facts if isinstance(fact, Delivered) for n in _each(fact)]
    assert len(set(delivered)) == len(delivered)
    assert {(offset, attempt): at for offset, attempt, at in delivered} == world.delivered
    settled = {
        n: (fact.at_ms, fact.delivered_ms) for fact in facts if isinstance(fact, Acknowledged) for n in _each(fact)
    }
    assert settled == world.acked
    dead = sum(fact.messages for fact in facts if isinstance(fact, DeadLettered))
    assert dead == world.queue.partition_queue.counters_by_group[GROUP].dead > 0
    assert dead + len(world.acked) == len(world.published)
    check_samples(samples, world)


def _each(fact: Delivered | Acknowledged) -> range:
    return range(fact.start, fact.end)


def check_samples(samples: Samples, world: World) -> None:
    found = {name: Histogram() for name in NAMES}
    for batch in samples.rows("t"):
        for row in batch.to_pylist():
            found[NAMES[row["measure"]]].add(row["bucket"], row["count"], row["highest"])
    values = {
        "publish_to_delivery": [
            at - world.published[n] for (n, attempt), at in world.delivered.items() if attempt == 1
        ],
        "delivery_to_ack": [at - before for at, before in world.acked.values()],
        "publish_to_ack": [at - world.published[n] for n, (at, _) in world.acked.items()],
    }
    for measure in MEASURES:
        got, exact = found[measure].percentiles(), sorted(values[measure])
        assert (got.count, got.max) == (len(exact), exact[-1])
        for part, value in ((0.5, got.p50), (0.9, got.p90), (0.99, got.p99), (0.999, got.p999)):
            rank = -(-round(part * 1000) * len(exact) // 1000)
            assert abs(value - exact[rank - 1]) <= exact[rank - 1] / 100
    assert found["attempts"].count == len(world.delivered)
    assert found["redeliveries"].count == sum(attempt > 1 for _, attempt in world.delivered)
    assert (found["acks"].count, found["publish_unknown"].count) == (len(world.acked), 0)
