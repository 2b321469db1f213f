"""A partition's delivery under kills, full disks and slow journals: what was answered holds, and nothing is lost."""

import asyncio
import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quiver.model.errors import QuiverError
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.queues.partition.lease_issuer import DeliveredRun
from unit.queues.partition.queue_partition import GROUP, MoodyStorage, QueuePartition, numbered, offsets

MAX_ATTEMPTS = 3
STEPS = ["publish", "receive", "receive_twice", "settle", "settle_beside", "wait", "mood", "kill", "snapshot"]
STEPS += ["receive", "settle"]


class Run:
    """Does things at random and remembers what was promised."""

    def __init__(self, seed: int, ordering: str) -> None:
        self.chance = random.Random(seed)
        self.ordering = ordering
        self.storage = MoodyStorage()
        self.jobs = QueuePartition(self.storage)
        self.published = 0
        self.acked: set[int] = set()
        self.maybe_acked: set[int] = set()
        """Asked for, and not answered."""
        self.held: list[DeliveredRun] = []

    async def run(self) -> None:
        await self.jobs.open()
        await self.jobs.begin(ordering=self.ordering)
        for _ in range(50):
            try:
                await getattr(self, self.chance.choice(STEPS))()
            except QuiverError:
                assert self.storage.is_full
        self.storage.is_full = self.storage.is_slow = False
        await self.jobs.kill()
        await self.drain()
        await self.jobs.close()
        self.check()

    async def publish(self) -> None:
        count, keys = self.chance.randint(1, 9), [b"a", b"b", None]
        await self.jobs.publish(
            *numbered(count, self.published), keys=[self.chance.choice(keys) for _ in range(count)]
        )
        self.published += count

    async def receive(self) -> None:
        self.got(await self.jobs.receive(self.chance.randint(1, 8), visibility_ms=self.chance.randint(1, 3_000)))

    async def receive_twice(self) -> None:
        """Two consumers at once; one may give up."""
        both = [asyncio.ensure_future(self.jobs.receive(self.chance.randint(1, 4))) for _ in range(2)]
        for _ in range(self.chance.randint(0, 6)):
            await asyncio.sleep(0)
        if self.chance.random() < 0.5:
            both[1].cancel()
        for result in await asyncio.gather(*both, return_exceptions=True):
            if isinstance(result, list):
                self.got(result)

    def got(self, received: list[DeliveredRun]) -> None:
        for offset in offsets(received):
            assert offset not in self.acked
        assert all(run.attempt <= MAX_ATTEMPTS for run in received)
        self.held += received

    async def settle(self) -> None:
        if not self.held:
            return
        run = self.held.pop(self.chance.randrange(len(self.held)))
        end = self.chance.randint(run.start + 1, run.end)
        if end < run.end:
            self.held.append(run._replace(start=end))
        action = self.chance.choice((ACK, ACK, ACK, NACK, REJECT, EXTEND))
        wanted = set(range(run.start, end))
        if action == ACK:
            self.maybe_acked |= wanted
        settlement = await self.jobs.settle(run, action, [(run.start, end)], delay_ms=self.chance.randint(0, 2_000))
        refused = {offset for each in settlement.refused for offset in range(each.start, each.end)}
        if action == ACK:
            self.acked |= wanted - refused
        if action == EXTEND:
            self.held.append(run._replace(end=end))

    async def settle_beside(self) -> None:
        """While a snapshot is made, and somebody receives; the broker may be killed in the middle."""
        self.jobs.clock.ms += 301_000
        beside = [
            asyncio.ensure_future(work)
            for work in (
                self.jobs.partition_queue.journal.snapshot_if_due(),
                self.receive(),
                self.settle(),
                self.settle(),
            )
        ]
        for _ in range(self.chance.randint(0, 8)):
            await asyncio.sleep(0)
        if self.chance.random() < 0.3:
            await self.jobs.kill()
        for result in await asyncio.gather(*beside, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, QuiverError):
                raise result

    async def wait(self) -> None:
        await self.jobs.wait(self.chance.randint(1, 1_500))

    async def mood(self) -> None:
        self.storage.is_full = self.chance.random() < 0.4
        self.storage.is_slow = self.chance.random() < 0.4

    async def snapshot(self) -> None:
        self.jobs.clock.ms += 301_000
        await self.jobs.partition_queue.journal.snapshot_if_due()

    async def kill(self) -> None:
        if self.chance.random() < 0.5:
            await self.jobs.kill()

    async def drain(self) -> None:
        """A worker that takes everything to its end."""
        for _ in range(1_000):
            await self.jobs.wait(60_000)
            received = await self.jobs.receive()
            self.got(received)
            for run in received:
                assert (await self.jobs.settle(run)).refused == []
                self.acked |= set(range(run.start, run.end))
            state = self.jobs.partition_queue.state(GROUP)
            assert state is not None
            if not received and not state.counts().leased and not state.counts().retrying:
                break
        while self.jobs.partition_queue.outbox.open:
            await asyncio.sleep(0)

    def check(self) -> None:
        dead = [offset for offset, _, _ in self.jobs.dead]
        assert len(dead) == len(set(dead)), "one dead letter a message"
        assert not self.acked & set(dead)
        missing = set(range(self.published)) - self.acked - set(dead)
        assert missing <= self.maybe_acked, "nothing is lost"


@given(seed=st.integers(0, 2**32))
@example(seed=53)
@example(seed=2156)
@settings(max_examples=120)
def test_unordered(seed: int) -> None:
    asyncio.run(Run(seed, "none").run())


@given(seed=st.integers(0, 2**32))
@example(seed=448)
@settings(max_examples=60)
def test_ordered_by_key(seed: int) -> None:
    asyncio.run(Run(seed, "key").run())
