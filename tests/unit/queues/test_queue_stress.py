"""Many consumers at once, some of which give up at any moment: every message is acked by exactly one of them."""

import asyncio
import random
from collections import Counter

import pytest

from quiver.model.queue import Ordering
from quiver.model.settlement import ACK, NACK, SettleRequest
from quiver.queues.service import Received
from unit.queues.queue_broker import QueueBroker, part_of, values

CONSUMERS = 12
FRAMES = 150


class Stress:
    def __init__(self, seed: int, ordering: Ordering) -> None:
        self.chance = random.Random(seed)
        self.ordering: Ordering = ordering
        self.queue = QueueBroker()
        self.acked: Counter[bytes] = Counter()
        self.published = 0
        self.has_published = False
        self.is_over = asyncio.Event()

    async def run(self) -> None:
        await self.queue.start()
        await self.queue.broker.create_topic("jobs", {"partitions": 7, "max_unacked": 25, "max_attempts": 10_000})
        consumers = [asyncio.create_task(self.consume(f"c{number}")) for number in range(CONSUMERS)]
        for number in range(FRAMES):
            await self.publish(number)
        self.has_published = True
        self.note_acked([])
        async with asyncio.timeout(60):
            await self.is_over.wait()
        await asyncio.sleep(0)
        for task in consumers:
            task.cancel()
        for outcome in await asyncio.gather(*consumers, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError)

    async def publish(self, number: int) -> None:
        count = self.chance.randrange(1, 20)
        messages = [b"%d-%d" % (number, place) for place in range(count)]
        keys = [b"k%d" % self.chance.randrange(30) for _ in messages] if self.ordering == "key" else None
        partition, priority = self.chance.randrange(7), self.chance.randrange(5)
        await self.queue.publish("jobs", *messages, partition=partition, priority=priority, keys=keys)
        self.published += count
        await asyncio.sleep(0)

    async def consume(self, name: str) -> None:
        while not self.is_over.is_set():
            count = self.chance.randrange(1, 40)
            receiving = asyncio.create_task(
                self.queue.receive("jobs", consumer=name, count=count, wait_ms=300_000, ordering=self.ordering)
            )
            if self.chance.random() < 0.3:
                for _ in range(self.chance.randrange(15)):
                    await asyncio.sleep(0)
                receiving.cancel()
            try:
                received = await receiving
            except asyncio.CancelledError:
                continue
            assert all(one.run.attempt < 10_000 for one in received)
            if self.ordering == "key":
                await self.settle_leases(received)
            else:
                for one in received:
                    await self.settle_parts(one)

    async def settle_parts(self, one: Received) -> None:
        """The first messages of a run are acked, the others given back."""
        run = one.run
        cut = self.chance.randrange(run.start, run.end + 1) if self.chance.random() < 0.5 else run.end
        for action, start, end in [(ACK, run.start, cut), (NACK, cut, run.end)]:
            if start < end:
                await self.settle(part_of(one, action, runs=[(start, end)], delay_ms=0))
        self.note_acked(values([one])[: cut - run.start])

    async def settle_leases(self, received: list[Received]) -> None:
        """A lease is acked or given back as a whole."""
        leases: dict[int, list[Received]] = {}
        for one in received:
            leases.setdefault(one.run.lease_id, []).append(one)
        for lease in leases.values():
            action = ACK if self.chance.random() < 0.7 else NACK
            runs = [(one.run.start, one.run.end) for one in lease]
            await self.settle(part_of(lease[0], action, runs=runs, delay_ms=0))
            self.note_acked(values(lease) if action == ACK else [])

    async def settle(self, part: SettleRequest) -> None:
        [settlement] = await self.queue.broker.queues.settle([part])
        assert settlement.refused == []

    def note_acked(self, acked: list[bytes]) -> None:
        self.acked.update(acked)
        if self.has_published and self.acked.total() >= self.published:
            self.is_over.set()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_every_message_is_acked_once(seed: int, ordering: Ordering) -> None:
    stress = Stress(seed, ordering)
    try:
        await stress.run()
        assert (set(stress.acked.values()), len(stress.acked)) == ({1}, stress.published)
        [depth] = await stress.queue.broker.queue_depths.of_all("jobs")
        assert (depth.ready, depth.leased, depth.retrying, depth.consumers) == (0, 0, 0, {})
    finally:
        await stress.queue.broker.stop()
