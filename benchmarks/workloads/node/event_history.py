"""A long history of one kind of event, made by the broker's own code in a process that ends without closing anything.

A client that goes through the network would make the same records, and take hours to do so.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.payload import bodies
from benchmarks.roles import Watch
from quiver.broker.broker import Broker
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, REJECT, SettleRequest
from quiver.queues.service import Received
from quiver.records.build import build_frame
from quiver.storage.local.storage import LocalStorage

AT_ONCE = 500
PARTITIONS = 10
GROUPS = 1_000
PRODUCERS = 10_000
CHUNK = 10_000
DELAYED_AT_ONCE = 500
WORKERS = 16
RECEIVED_AT_ONCE = 100
DAY_MS = 86_400_000
BODIES = bodies(100)
BODY = BODIES[0]

Make = Callable[[Broker, int], Awaitable[None]]


def make_history(data_dir: str, kind: str, count: int, watch: Watch) -> None:
    """A role. Its process ends with everything open, as one that is killed."""
    watch.start()
    asyncio.run(_make(Path(data_dir), MAKERS[kind], count))


async def _make(data_dir: Path, make: Make, count: int) -> None:
    storage = LocalStorage(data_dir)
    await storage.open()
    broker = Broker(storage)
    await broker.start()
    await make(broker, count)


async def _spread(count: int, work: Callable[[int], Awaitable[object]], at_once: int = AT_ONCE) -> None:
    """Calls it with every number below `count`, many at a time."""
    numbers = iter(range(count))

    async def work_on() -> None:
        for number in numbers:
            await work(number)
            await asyncio.sleep(0)  # what is written at once is awaited without waiting

    await asyncio.gather(*(work_on() for _ in range(at_once)))


async def topic_changes(broker: Broker, count: int) -> None:
    """Topics are made, changed three times and deleted again; every fifth stays."""

    async def live(number: int) -> None:
        name = f"topic-{number}"
        await broker.create_topic(name, {"partitions": 1})
        for hours in range(1, 4):
            await broker.alter_topic(name, {"retention": f"{hours}h"})
        if number % 5:
            await broker.delete_topic(name)

    await _spread(count // 5, live)


async def offset_commits(broker: Broker, count: int) -> None:
    topic = await broker.create_topic("commits", {"partitions": PARTITIONS})
    groups = broker.groups
    for number in range(GROUPS):
        async with groups.locks.hold(f"group-{number}"):
            await groups.stream_group(f"group-{number}")

    async def commit(number: int) -> None:
        partition = TopicPartition(topic.id, number // GROUPS % PARTITIONS)
        await broker.streams.offsets.commit(f"group-{number % GROUPS}", {partition: (number, "")})

    await _spread(count, commit)


async def producer_frames(broker: Broker, count: int) -> None:
    """Each frame has one message, of one of the producers that a partition remembers."""
    topic = await broker.create_topic("producers", {"partitions": 1, "durability": "interval"})
    first = [(await broker.init_producer())[0] for _ in range(PRODUCERS)]

    async def send(number: int) -> None:
        producer_id, sequence = first[number % PRODUCERS], number // PRODUCERS
        frame = build_frame([BODY], timestamp_ms=1, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        await broker.produce(topic.id, 0, frame)

    await _spread(count, send)


async def transactions(broker: Broker, count: int) -> None:
    """Each has one message. There are as many producers as transactions at once."""
    topic = await broker.create_topic("transactions", {"partitions": PARTITIONS})
    keys = [await broker.transactions.init(f"worker-{number}") for number in range(AT_ONCE)]

    async def transact(number: int) -> None:
        key = keys.pop()
        frame = build_frame(
            [BODY],
            timestamp_ms=1,
            producer_id=key.producer_id,
            producer_epoch=key.epoch,
            base_sequence=0,
            transactional=True,
        )
        await broker.produce(topic.id, number % PARTITIONS, frame)
        answer = await broker.transactions.commit([key])
        keys.extend(answer.producers)

    await _spread(count, transact)


async def leases_and_acks(broker: Broker, count: int) -> None:
    """Every message is acknowledged by itself."""

    def each(job: Received) -> list[SettleRequest]:
        return [_part(job, ACK, offset, offset + 1) for offset in range(job.run.start, job.run.end)]

    await _jobs(broker, count, each)


async def dead_letters(broker: Broker, count: int) -> None:
    """What is received at once is given up at once."""
    await _jobs(broker, count, lambda job: [_part(job, REJECT, job.run.start, job.run.end)])


async def _jobs(broker: Broker, count: int, parts_of: Callable[[Received], list[SettleRequest]]) -> None:
    topic = await broker.create_topic("jobs", {"partitions": PARTITIONS})
    await _fill(broker, topic.id, count)
    left = count

    async def work(number: int) -> None:
        nonlocal left
        while left > 0:
            jobs = await broker.queues.receive(
                ReceiveRequest(
                    [broker.topic("jobs").id],
                    "workers",
                    consumer=f"w{number}",
                    max_messages=RECEIVED_AT_ONCE,
                    wait_ms=100,
                )
            )
            left -= sum(job.run.end - job.run.start for job in jobs)
            parts = [part for job in jobs for part in parts_of(job)]
            await asyncio.gather(*(broker.queues.settle([part]) for part in parts))

    await asyncio.gather(*(work(number) for number in range(WORKERS)))


async def _fill(broker: Broker, topic_id: int, count: int) -> None:
    for at in range(0, count, CHUNK):
        frame = build_frame(BODIES[: min(CHUNK, count - at)], timestamp_ms=1)
        await broker.produce(topic_id, at // CHUNK % PARTITIONS, frame)


def _part(job: Received, action: int, start: int, end: int) -> SettleRequest:
    run = job.run
    return SettleRequest(job.topic.id, run.partition, run.group_id, run.lease_id, action, [(start, end)])


async def pending_delays(broker: Broker, count: int) -> None:
    """All wait; a tenth was cancelled."""
    topic = await broker.create_topic("delays", {"partitions": PARTITIONS})
    now_ms = broker.clock.now_ms()
    for at in range(0, count, DELAYED_AT_ONCE):
        size = min(DELAYED_AT_ONCE, count - at)
        times: list[int | None] = [now_ms + DAY_MS + (at + number) * 7_919 % DAY_MS for number in range(size)]
        frame = build_frame(BODIES[:size], timestamp_ms=1, deliver_at_ms=times)
        await broker.produce(topic.id, at // DELAYED_AT_ONCE % PARTITIONS, frame)
    cancelled = [number for number in range(count // PARTITIONS) if number % 10 == 0]
    for partition in range(PARTITIONS):
        for start in range(0, len(cancelled), 1_000):
            await broker.delays.cancel("delays", partition, cancelled[start : start + 1_000])


async def delivered_delays(broker: Broker, count: int) -> None:
    """All have come to their topic."""
    topic = await broker.create_topic("due", {"partitions": PARTITIONS})
    for at in range(0, count, DELAYED_AT_ONCE):
        size = min(DELAYED_AT_ONCE, count - at)
        due: list[int | None] = [broker.clock.now_ms() + 50] * size
        frame = build_frame(BODIES[:size], timestamp_ms=1, deliver_at_ms=due)
        await broker.produce(topic.id, at // DELAYED_AT_ONCE % PARTITIONS, frame)
    while broker.delays.pending_count(topic.id):
        await asyncio.sleep(0.05)


async def single_messages(broker: Broker, count: int) -> None:
    """As HTTP publishes them: small frames without a producer."""
    await broker.create_topic("singles", {"partitions": PARTITIONS, "durability": "interval"})
    message = NewMessage(value=BODY)
    await _spread(count, lambda number: broker.publish("singles", [message]))


MAKERS: dict[str, Make] = {
    "topic changes": topic_changes,
    "offset commits": offset_commits,
    "frames of producers": producer_frames,
    "single messages": single_messages,
    "transactions": transactions,
    "leases and acks": leases_and_acks,
    "dead letters": dead_letters,
    "delays, pending": pending_delays,
    "delays, delivered": delivered_delays,
}
