"""Transactions under kills, power cuts, full disks, timeouts and fencing: what was answered holds, and nothing else.

Every transaction has messages, and may have offsets and acks. In the end its messages tell whether it counts; if they
do all of it does, and if they do not none of it does.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.crashing_storage import CrashingStorage

from quiver.broker.broker import Broker
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import LeaseLost, ProducerFenced, QuiverError, UnknownProducer
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.queues.service import Received
from unit.queues.queue_broker import StandingClock

WORKERS = 3
PARTITIONS = 2
JOBS = 30
STEPS = 40


class Transaction:
    """What a worker was told, and what it must be in the end: None is either."""

    def __init__(self, key: ProducerKey, name: str) -> None:
        self.key = key
        self.name = name
        self.values: list[bytes] = []
        self.offset: int | None = None
        self.jobs: list[Received] = []
        self.is_spoiled = False
        """It is to be aborted."""
        self.is_asked_for = False
        """To be committed, with the offset and the jobs it had then."""
        self.counts: bool | None = False


class Worker:
    def __init__(self, number: int) -> None:
        self.number = number
        self.id = f"worker-{number}"
        self.key: ProducerKey | None = None
        self.now: Transaction | None = None
        self.all: list[Transaction] = []
        self.offset = 0
        self.is_busy = False


class Run:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = StandingClock()
        self.storage = CrashingStorage(random.Random(seed + 1))
        self.workers = [Worker(number) for number in range(WORKERS)]
        self.sent = 0

    async def run(self) -> None:
        await self.start()
        await self.set_up()
        for _ in range(STEPS):
            await self.some_at_once()
        self.storage.is_full = self.storage.is_slow = False
        await self.end(is_power_cut=self.chance.random() < 0.5)
        self.clock.ms += 3_600_000
        await self.check()
        await self.end(is_power_cut=True)
        await self.check_again()
        await self.broker.stop()

    async def start(self) -> None:
        self.broker = Broker(self.storage, clock=self.clock)
        await self.broker.start()

    async def set_up(self) -> None:
        for name, partitions in (("in", WORKERS), ("a", PARTITIONS), ("b", PARTITIONS), ("jobs", 1)):
            await self.broker.create_topic(name, {"partitions": partitions})
        await self.broker.publish("jobs", [NewMessage(value=b"%d" % number) for number in range(JOBS)])
        await self.broker.publish(
            "in", [NewMessage(value=b"", partition=n % WORKERS) for n in range(WORKERS * STEPS)]
        )

    async def some_at_once(self) -> None:
        """Workers go on beside each other; the broker may end in the middle."""
        free = [worker for worker in self.workers if not worker.is_busy]
        acts = [self.act(worker) for worker in self.chance.sample(free, self.chance.randint(1, len(free)))]
        if self.chance.random() < 0.4:
            acts.append(self.chance.choice((self.mood, self.pass_time, self.save, self.keep_up, self.take_over))())
        tasks = [asyncio.ensure_future(act) for act in acts]
        for _ in range(self.chance.randint(0, self.chance.choice((5, 40)))):
            await asyncio.sleep(0)
        if self.chance.random() < 0.25:
            await self.end(is_power_cut=self.chance.random() < 0.5)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, QuiverError):
                raise result

    async def end(self, *, is_power_cut: bool) -> None:
        """kill -9, and the next start."""
        self.storage.life += 1
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if is_power_cut:
            await self.storage.cut_power()
        await self.start()

    # what workers do

    async def act(self, worker: Worker) -> None:
        worker.is_busy = True
        try:
            await self._act(worker)
        except (ProducerFenced, UnknownProducer):
            worker.key = worker.now = None
        finally:
            worker.is_busy = False

    async def _act(self, worker: Worker) -> None:
        now = worker.now
        if worker.key is None:
            worker.key = await self.broker.transactions.init(worker.id)
        elif now is None or not now.values:
            await self.publish(worker)
        elif now.is_spoiled:
            await self.abort(worker)
        else:
            more = () if now.is_asked_for else (self.publish, self.take_job, self.take_job)
            await self.chance.choice((*more, self.commit, self.commit, self.commit, self.abort))(worker)

    async def publish(self, worker: Worker) -> None:
        assert worker.key is not None
        if worker.now is None:
            worker.now = Transaction(worker.key, f"{worker.id}-{len(worker.all)}")
            worker.all.append(worker.now)
        now, self.sent = worker.now, self.sent + 1
        value = b"%d" % self.sent
        message = NewMessage(value=value, partition=self.chance.randrange(PARTITIONS))
        topic = self.chance.choice("ab")
        try:
            await self.broker.transactions.publish(now.key.producer_id, now.key.epoch, topic, message)
        except BaseException:
            now.is_spoiled = True
            now.values.append(value)
            raise
        now.values.append(value)

    async def take_job(self, worker: Worker) -> None:
        assert worker.now is not None
        visibility_ms = self.chance.choice((500, 600_000, 600_000))
        worker.now.jobs += await self.broker.queues.receive(
            ReceiveRequest(
                [self.broker.topic("jobs").id],
                "workers",
                consumer=worker.id,
                max_messages=1,
                visibility_ms=visibility_ms,
            )
        )

    async def commit(self, worker: Worker) -> None:
        now = worker.now
        assert now is not None
        if not now.is_asked_for and self.chance.random() < 0.6:
            worker.offset += 1
            now.offset = worker.offset
        now.is_asked_for = True
        now.counts = None
        try:
            answer = await self._commit(worker, now)
        except QuiverError as error:
            now.counts, now.is_spoiled = False, isinstance(error, LeaseLost)
            raise
        now.counts = True
        worker.key, worker.now = answer.producers[0], None

    async def _commit(self, worker: Worker, now: Transaction) -> Any:
        offsets = []
        if now.offset is not None:
            offsets.append(
                GroupOffsetCommit("g", [CommitPart(self.broker.topic("in").id, worker.number, now.offset)])
            )
        runs = [(job.topic.id, job.run) for job in now.jobs]
        acks = [LeasedAcks(id, 0, run.group_id, run.lease_id, [(run.start, run.end)]) for id, run in runs]
        key = now.name if self.chance.random() < 0.3 else None
        return await self.broker.transactions.commit([now.key], key=key, offsets=offsets, acks=acks)

    async def abort(self, worker: Worker) -> None:
        now = worker.now
        assert now is not None
        answer = await self.broker.transactions.abort([now.key])
        now.counts = False  # also what was asked for and not answered: it would have been fenced otherwise
        worker.key, worker.now = answer.producers[0], None

    # what happens around them

    async def take_over(self) -> None:
        """Another instance of a worker begins, whatever the first one is doing."""
        await self.broker.transactions.init(self.chance.choice(self.workers).id)

    async def mood(self) -> None:
        self.storage.is_full = self.chance.random() < 0.4
        self.storage.is_slow = self.chance.random() < 0.5

    async def pass_time(self) -> None:
        self.clock.ms += self.chance.choice((100, 1_000, 10_000, 61_000))
        self.broker.transactions._aborts.begin_overdue()
        await self.broker.queues.expire_due()

    async def save(self) -> None:
        broker, coordinator = self.broker, self.broker.transactions._coordinator
        works: list[Coroutine[Any, Any, None]] = [
            broker.metadata.coordination._journaled.snapshot(),  # type: ignore[attr-defined]
            *(shard.journaled.snapshot() for shard in broker.streams._journal._shards.values()),
            coordinator.journaled.snapshot(),
            *(partition.saved_state.save_now(roll=False) for partition in self.broker._partitions.all()),
        ]
        self.clock.ms += 301_000 if self.chance.random() < 0.5 else 0
        works += [
            partition_queue.journal.snapshot_if_due()
            for partition_queue in self.broker.queues._partition_queues.all()
        ]
        await asyncio.gather(*works)

    async def keep_up(self) -> None:
        await self.broker.transactions._applier.flush()
        await self.broker.transactions._coordinator.maintain()

    # what is left

    async def check(self) -> None:
        values = await self.committed_values()
        assert all(count == 1 for count in values.values()), "a message is there twice"
        self.visible = set(values)
        acked: set[int] = set()
        for worker in self.workers:
            committed = [each for each in worker.all if self.is_visible(each)]
            offsets = [each.offset for each in committed if each.offset is not None]
            assert self.offset_of(worker) == (offsets[-1] if offsets else None)
            runs = [job.run for each in committed for job in each.jobs]
            acked |= {offset for run in runs for offset in range(run.start, run.end)}
        assert self.visible <= {value for worker in self.workers for each in worker.all for value in each.values}
        left = await self.drain()
        assert left == Counter(set(range(JOBS)) - acked)

    async def check_again(self) -> None:
        """After another power cut nothing of this has changed."""
        assert set(await self.committed_values()) == self.visible
        self.clock.ms += 3_600_000
        assert not await self.drain()

    def is_visible(self, transaction: Transaction) -> bool:
        found = [value in self.visible for value in transaction.values]
        assert len(set(found)) <= 1, f"{transaction.name} is there in part"
        counts = bool(found) and found[0]
        assert transaction.counts in (None, counts), f"{transaction.name} was answered otherwise"
        return counts

    async def committed_values(self) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for topic in "ab":
            for partition in range(PARTITIONS):
                page = await self.broker.read_messages(topic, partition, BrowseRequest(limit=10_000))
                found.update(message.value or b"" for message in page.messages)
        return found

    def offset_of(self, worker: Worker) -> int | None:
        partition = TopicPartition(self.broker.topic("in").id, worker.number)
        committed = self.broker.streams.group("g").offsets.get(partition) if self.broker.groups.find("g") else None
        return None if committed is None else committed.offset

    async def drain(self) -> Counter[int]:
        """Every job that is left, acknowledged."""
        await self.broker.queues.expire_due()
        found: Counter[int] = Counter()
        while jobs := await self.broker.queues.receive(
            ReceiveRequest([self.broker.topic("jobs").id], "workers", consumer="last", max_messages=100)
        ):
            for job in jobs:
                run = job.run
                found.update(range(run.start, run.end))
                part = SettleRequest(job.topic.id, 0, run.group_id, run.lease_id, ACK, [(run.start, run.end)])
                [settled] = await self.broker.queues.settle([part])
                assert not settled.refused
        return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_what_was_answered_holds(seed: int) -> None:
    asyncio.run(Run(seed).run())
