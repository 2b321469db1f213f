"""Messages through a worker that does not own their partitions."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.messages.browse import BrowseRequest
from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart, release
from quiver.model.errors import PartitionNotFound, QuiverError, TopicNotFound, UnknownProducer, WorkerUnavailable
from quiver.model.limits import MIB
from quiver.model.message import NewMessage
from quiver.model.position import LATEST
from quiver.model.topic import Topic
from quiver.records.build import build_frame
from quiver.records.read import split_frames
from quiver.testing.workers import WorkerSet

PARTITIONS = 4


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(2) as started:
        yield started


@pytest.fixture
async def topic(workers: WorkerSet) -> Topic:
    return await workers[0].broker.create_topic("t", {"partitions": PARTITIONS})


def owned_by(workers: WorkerSet, worker: int) -> list[int]:
    placement = workers[0].local.settings.placement
    return [n for n in range(PARTITIONS) if placement.partition_worker("t", n) == worker]


def parts(topic: Topic, offset: int = 0) -> list[FetchPart]:
    return [FetchPart(topic.id, number, offset, MIB) for number in range(PARTITIONS)]


async def fetch(
    workers: WorkerSet, worker: int, wanted: list[FetchPart], *, wait_ms: int = 0, min_bytes: int = 1, most: int = MIB
) -> list[FetchedSlice]:
    broker = workers[worker].broker
    return await broker.fetch(wanted, FetchOptions(wait_ms, min_bytes, most))


async def values(fetched: list[FetchedSlice]) -> list[int]:
    """How many messages each part has."""
    counts = []
    for part in fetched:
        data = b"" if part.slice is None else await part.slice.read()
        counts.append(sum(header.record_count for _, header in split_frames(data)))
    release(fetched)
    return counts


async def test_messages_are_published_and_read_anywhere(workers: WorkerSet, topic: Topic) -> None:
    messages = [NewMessage(value=b"%d" % n, partition=n % PARTITIONS) for n in range(40)]
    published = await workers[1].broker.publish("t", messages)
    assert [(each.partition, each.offset) for each in published if not isinstance(each, QuiverError)] == [
        (n % PARTITIONS, n // PARTITIONS) for n in range(40)
    ]
    for worker in range(2):
        assert await values(await fetch(workers, worker, parts(topic))) == [10] * PARTITIONS
        for number in range(PARTITIONS):
            page = await workers[worker].broker.read_messages("t", number, BrowseRequest(offset=3, limit=2))
            assert [message.value for message in page.messages] == [b"%d" % (number + 12), b"%d" % (number + 16)]


async def test_what_one_message_is_refused_for_fails_only_that(workers: WorkerSet, topic: Topic) -> None:
    messages = [NewMessage(value=b"x" * size, partition=n) for n, size in enumerate((1, 2 * MIB, 1, 2 * MIB))]
    messages.append(NewMessage(value=b"x", partition=9))
    outcomes = await workers[0].broker.publish("t", messages)
    assert [getattr(each, "code", "") for each in outcomes] == [
        "", "message_too_large", "", "message_too_large", "partition_not_found",
    ]  # fmt: skip
    with pytest.raises(TopicNotFound):
        await workers[1].broker.publish("nothing", messages)


async def test_a_fetch_waits_at_all_owners(workers: WorkerSet, topic: Topic) -> None:
    for worker in range(2):
        for number in range(PARTITIONS):
            ends = [await workers[0].broker.find_offset(topic.id, n, LATEST) for n in range(PARTITIONS)]
            wanted = [part._replace(offset=ends[part.partition]) for part in parts(topic)]
            waiting = asyncio.ensure_future(fetch(workers, worker, wanted, wait_ms=60_000))
            for _ in range(20):
                await asyncio.sleep(0)
            await workers[1 - worker].broker.publish("t", [NewMessage(value=b"x", partition=number)])
            assert await values(await waiting) == [int(n == number) for n in range(PARTITIONS)]


async def test_a_fetch_has_no_more_than_it_wants(workers: WorkerSet, topic: Topic) -> None:
    messages = [NewMessage(value=bytes(1000), partition=n) for n in range(PARTITIONS)]
    await workers[0].broker.publish("t", messages)
    fetched = await fetch(workers, 0, parts(topic), most=100)
    assert sorted(await values(fetched)) == [0, 0, 0, 1]
    assert [part.high_watermark for part in fetched] == [1] * PARTITIONS


async def test_parts_of_a_worker_that_is_gone_fail_alone(workers: WorkerSet, topic: Topic) -> None:
    await workers[0].broker.publish("t", [NewMessage(value=b"x", partition=n) for n in range(PARTITIONS)])
    workers.kill(1)
    fetched = await fetch(workers, 0, [*parts(topic), FetchPart(topic.id + 1, 0, 0, MIB)], wait_ms=60_000)
    gone = owned_by(workers, 1)
    assert [type(part.error) for part in fetched] == [
        WorkerUnavailable if n in gone else type(None) for n in range(PARTITIONS)
    ] + [TopicNotFound]
    release(fetched)


async def test_producers_are_known_to_every_owner(workers: WorkerSet, topic: Topic) -> None:
    producer_id, epoch = await workers[1].broker.init_producer()
    for worker in range(2):
        frames = [
            build_frame([b"x"], timestamp_ms=1, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
            for sequence in range(worker * 5, worker * 5 + 5)
        ]
        for number in range(PARTITIONS):
            futures = [workers[worker].broker.produce(topic.id, number, frame) for frame in (*frames, frames[-1])]
            appended = await asyncio.gather(*futures)
            assert [each.base_offset for each in appended[:5]] == list(range(worker * 5, worker * 5 + 5))
            assert appended[5].duplicate
    unknown = build_frame([b"x"], timestamp_ms=1, producer_id=producer_id, producer_epoch=1, base_sequence=0)
    for number in range(PARTITIONS):
        with pytest.raises(UnknownProducer):
            await workers[0].broker.produce(topic.id, number, unknown)
    assert await workers[1].broker.init_producer(producer_id, epoch) == (producer_id, 1)
    for number in range(PARTITIONS):
        await workers[1].broker.produce(topic.id, number, unknown)


@pytest.mark.parametrize("point", ["append", "appended"])
async def test_a_frame_whose_owner_is_killed_is_stored_once(workers: WorkerSet, topic: Topic, point: str) -> None:
    producer_id, epoch = await workers[0].broker.init_producer()
    number = owned_by(workers, 1)[0]
    frame = build_frame([b"x"], timestamp_ms=1, producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    hold = workers.storage(1).hold(f"topics/{topic.id}/{number}", "append" if point == "append" else "appended")
    producing = workers[0].broker.produce(topic.id, number, frame)
    await hold.reached()
    workers.kill(1)
    with pytest.raises(WorkerUnavailable):
        await producing
    await workers.start(1)
    again = await workers[0].broker.produce(topic.id, number, frame)
    assert (again.base_offset, again.duplicate) == (0, point == "appended")
    details = await workers[0].broker.describe("t")
    assert details.message_count == 1


async def test_a_partition_that_is_not_there(workers: WorkerSet, topic: Topic) -> None:
    for number in (PARTITIONS, PARTITIONS + 1):
        with pytest.raises(PartitionNotFound):
            await workers[0].broker.produce(topic.id, number, build_frame([b"x"], timestamp_ms=1))
