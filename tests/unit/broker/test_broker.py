"""The use cases on the memory engine: what gateways may rely on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from quiver.broker.broker import Broker, BrokerSettings
from quiver.messages.browse import BrowseRequest
from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart
from quiver.messages.publish import Published
from quiver.model.errors import (
    DiskFull,
    InvalidFrame,
    InvalidRequest,
    OffsetOutOfRange,
    OutOfSequence,
    PartitionNotFound,
    QuiverError,
    ShuttingDown,
    StalePartitionCount,
    TopicExists,
    TopicNotFound,
    UnknownProducer,
)
from quiver.model.message import NewMessage
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.model.priority import Priority
from quiver.model.topic import Topic
from quiver.records.build import build_frame
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    yield broker
    await broker.stop()


def frame(*values: bytes, sequence: int = -1, producer: int = -1) -> bytes:
    epoch = 0 if producer >= 0 else -1
    return build_frame(
        list(values), timestamp_ms=1, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )


async def values_of(fetched: FetchedSlice) -> list[bytes | None]:
    if fetched.slice is None:
        return []
    data = await fetched.slice.read()
    fetched.slice.release()
    return [value for position, _ in split_frames(data) for value in open_frame(data, position).values()]


async def fetch_one(broker: Broker, part: FetchPart, wait_ms: int = 0) -> FetchedSlice:
    [fetched] = await broker.fetch([part], FetchOptions(wait_ms, 1, 1 << 20))
    return fetched


async def test_frames_come_back_in_order_with_offsets(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {"partitions": 2})
    first, second = broker.produce(topic.id, 1, frame(b"a", b"b")), broker.produce(topic.id, 1, frame(b"c"))
    assert (await second).base_offset == 2
    assert (await first).base_offset == 0
    fetched = await fetch_one(broker, FetchPart(topic.id, 1, 0, 1 << 20))
    assert await values_of(fetched) == [b"a", b"b", b"c"]
    assert (fetched.log_start, fetched.high_watermark, fetched.last_stable) == (0, 3, 3)
    details = await broker.describe("orders")
    assert [(p.start_offset, p.end_offset) for p in details.partitions] == [(0, 0), (0, 3)]
    assert details.message_count == 3


async def test_a_waiting_fetch_wakes_when_data_comes(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {})
    parts = [FetchPart(topic.id, number, 0, 1 << 20) for number in range(3)]
    waiting = asyncio.create_task(broker.fetch(parts, FetchOptions(60_000, 1, 1 << 20)))
    await asyncio.sleep(0)
    await broker.produce(topic.id, 2, frame(b"news"))
    answers = await asyncio.wait_for(waiting, 5)
    assert [await values_of(answer) for answer in answers] == [[], [], [b"news"]]


async def test_a_fetch_that_waits_for_more_bytes_answers_with_what_there_is_in_the_end(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {})
    await broker.produce(topic.id, 0, frame(b"little"))
    [fetched] = await broker.fetch([FetchPart(topic.id, 0, 0, 1 << 20)], FetchOptions(10, 1 << 20, 1 << 20))
    assert await values_of(fetched) == [b"little"]


async def test_errors_of_one_part_leave_the_others_alone(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {})
    await broker.produce(topic.id, 0, frame(b"a"))
    parts = [FetchPart(topic.id, 0, 0, 100), FetchPart(topic.id, 9, 0, 100), FetchPart(topic.id, 1, 5, 100)]
    good, no_partition, too_far = await broker.fetch(parts, FetchOptions(60_000, 10**6, 10**6))
    assert await values_of(good) == [b"a"]
    assert isinstance(no_partition.error, PartitionNotFound)
    assert isinstance(too_far.error, OffsetOutOfRange)


async def test_nobody_writes_to_a_new_partition_before_it_is_recorded(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    is_recording, may_end = asyncio.Event(), asyncio.Event()

    async def refuse_later(name: str, settings: Mapping[str, Any]) -> Topic:
        is_recording.set()
        await may_end.wait()
        raise DiskFull(problem="no space left")

    with monkeypatch.context() as patch:
        patch.setattr(broker._catalogue, "alter", refuse_later)
        growing = asyncio.ensure_future(broker.add_partitions("orders", 2))
        await is_recording.wait()
        with pytest.raises(PartitionNotFound):
            broker.produce(topic.id, 1, frame(b"a"))
        assert [found.partition for found in (await broker.describe("orders")).partitions] == [0]
        may_end.set()
        with pytest.raises(DiskFull):
            await growing
    await broker.add_partitions("orders", 2)
    assert (await broker.produce(topic.id, 1, frame(b"b"))).base_offset == 0


async def test_a_repeat_gets_the_original_offset_also_in_the_same_batch(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {})
    producer, _ = await broker.init_producer()
    sent = frame(b"a", b"b", producer=producer, sequence=0)
    original, repeat = broker.produce(topic.id, 0, sent), broker.produce(topic.id, 0, sent)
    assert not (await original).duplicate
    assert await repeat == (0, (await original).append_time_ms, True, False, (), False)
    with pytest.raises(OutOfSequence):
        await broker.produce(topic.id, 0, frame(b"z", producer=producer, sequence=7))
    assert (await broker.produce(topic.id, 0, frame(b"c", producer=producer, sequence=2))).base_offset == 2


async def test_producer_state_outlives_the_broker() -> None:
    storage = MemoryStorage()
    for clean in (True, False):
        broker = Broker(storage)
        await broker.start()
        topic = await broker.create_topic(f"orders-{clean}", {})
        producer, _ = await broker.init_producer()
        await broker.produce(topic.id, 0, frame(b"a", producer=producer, sequence=0))
        if clean:
            await broker.stop()
        again = Broker(storage)
        await again.start()
        repeat = await again.produce(topic.id, 0, frame(b"a", producer=producer, sequence=0))
        assert (repeat.base_offset, repeat.duplicate) == (0, True)
        await again.stop()


async def test_what_is_refused_before_it_is_queued(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {})
    good = frame(b"a")
    with pytest.raises(InvalidFrame):
        broker.produce(topic.id, 0, good[:-1])
    with pytest.raises(PartitionNotFound):
        broker.produce(topic.id, 3, good)
    with pytest.raises(TopicNotFound):
        broker.produce(topic.id + 1, 0, good)
    with pytest.raises(StalePartitionCount):
        broker.produce(topic.id, 0, good, partition_count=2)
    with pytest.raises(UnknownProducer):
        broker.produce(
            topic.id,
            0,
            build_frame([b"a"], timestamp_ms=1, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        )
    assert (await broker.describe("orders")).message_count == 0


async def test_single_messages_share_frames_and_keep_their_fields(broker: Broker) -> None:
    await broker.create_topic("orders", {"partitions": 1})
    messages = [
        NewMessage(value=b"plain"),
        NewMessage(value=None, key=b"k", headers={"source": b"web"}, timestamp_ms=77),
        NewMessage(value=b"urgent", priority=Priority.CRITICAL),
        NewMessage(value=b"nowhere", partition=5),
        NewMessage(value=b"beyond the calendar", expires_at_ms=2**60),
    ]
    published = await broker.publish("orders", messages)
    assert [place.offset for place in published if isinstance(place, Published)] == [0, 1, 2]
    assert isinstance(published[3], PartitionNotFound)
    assert isinstance(published[4], InvalidRequest)
    page = await broker.read_messages("orders", 0, BrowseRequest())
    assert [m.value for m in page.messages] == [b"plain", None, b"urgent"]
    assert page.messages[1].key == b"k"
    assert page.messages[1].headers == {"source": b"web"}
    assert page.messages[1].timestamp_ms == 77
    assert page.messages[2].priority is Priority.CRITICAL
    assert page.next_offset == 3
    topic = broker.topic("orders")
    [fetched] = await broker.fetch([FetchPart(topic.id, 0, 0, 1 << 20)], FetchOptions(0, 1, 1 << 20))
    assert fetched.slice is not None
    assert len(list(split_frames(await fetched.slice.read()))) == 2
    fetched.slice.release()


async def test_pages_follow_each_other_without_gap(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    for start in range(0, 100, 10):
        await broker.produce(topic.id, 0, frame(*(b"%d" % i for i in range(start, start + 10))))
    seen, offset = [], 0
    while True:
        page = await broker.read_messages("orders", 0, BrowseRequest(offset=offset, limit=7))
        seen += [int(m.value or b"") for m in page.messages]
        if not page.messages:
            break
        offset = page.next_offset
    assert seen == list(range(100))


async def test_messages_with_a_key_go_where_kafka_puts_them(broker: Broker) -> None:
    await broker.create_topic("orders", {"partitions": 3})
    places = await broker.publish("orders", [NewMessage(value=b"", key=b"customer-7")] * 2)
    assert isinstance(places[0], Published)
    assert isinstance(places[1], Published)
    assert places[0].partition == places[1].partition


async def test_messages_without_a_key_reach_every_partition(broker: Broker) -> None:
    await broker.create_topic("orders", {"partitions": 4})
    places = await broker.publish("orders", [NewMessage(value=b"x")] * 1200)
    counts = [0] * 4
    for place in places:
        assert isinstance(place, Published)
        counts[place.partition] += 1
    assert counts == [300] * 4


async def test_positions(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    appended = await broker.produce(topic.id, 0, frame(b"a", b"b"))
    assert await broker.find_offset(topic.id, 0, EARLIEST) == 0
    assert await broker.find_offset(topic.id, 0, LATEST) == 2
    assert await broker.find_offset(topic.id, 0, Position("time", appended.append_time_ms)) == 0
    assert await broker.find_offset(topic.id, 0, Position("time", appended.append_time_ms + 1)) == 2
    with pytest.raises(OffsetOutOfRange):
        await broker.find_offset(topic.id, 0, Position("offset", 3))


def of_epoch(value: bytes, producer: int, epoch: int, sequence: int = 0) -> bytes:
    return build_frame([value], timestamp_ms=1, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


async def test_a_frame_puts_nobody_out_by_an_epoch_that_was_not_given_out(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    producer, _ = await broker.init_producer()
    await broker.produce(topic.id, 0, of_epoch(b"0", producer, 0))
    never_given = await broker.transactions.init("mine")
    for id, epoch in (
        (producer, 1),
        (producer, 2**31 - 1),
        (never_given.producer_id, 1),
        (never_given.producer_id + 1, 0),
    ):
        with pytest.raises(UnknownProducer):
            await broker.produce(topic.id, 0, of_epoch(b"x", id, epoch))
    assert (await broker.produce(topic.id, 0, of_epoch(b"1", producer, 0, 1))).base_offset == 1
    stranger, epoch = await broker.init_producer(producer, 17)
    assert (stranger != producer, epoch) == (True, 0), "who claims what it was not given gets something of its own"


async def test_epochs_that_were_given_out_are_known_after_a_restart() -> None:
    storage = MemoryStorage()
    broker = Broker(storage)
    await broker.start()
    topic = await broker.create_topic("orders", {"partitions": 1})
    producer, _ = await broker.init_producer()
    for epoch in range(3):
        assert await broker.init_producer(producer, epoch) == (producer, epoch + 1)
    assert await broker.init_producer(producer, 0) == (producer, 1), "each partition takes its own"
    await broker.produce(topic.id, 0, of_epoch(b"0", producer, 3))
    for is_clean in (False, True):
        if is_clean:
            await broker.stop()
        broker = Broker(storage)
        await broker.start()
        assert (await broker.produce(topic.id, 0, of_epoch(b"0", producer, 3))).duplicate
        with pytest.raises(UnknownProducer):
            await broker.produce(topic.id, 0, of_epoch(b"x", producer, 4))
        assert await broker.init_producer(producer, 2) == (producer, 3)
    await broker.stop()


async def test_two_who_add_partitions_at_once_are_told_what_each_added(broker: Broker) -> None:
    await broker.create_topic("orders", {"partitions": 1})
    added = await asyncio.gather(broker.add_partitions("orders", 2), broker.add_partitions("orders", 5))
    assert added == [(1, 2), (2, 5)]


async def test_changes_of_a_topic_at_once_are_all_made(broker: Broker) -> None:
    await broker.create_topic("orders", {"partitions": 1})
    settings = {"retention": "1h", "max_unacked": 7, "ttl": "2m", "cleanup": "compact", "partitions": 3}
    await asyncio.gather(*(broker.alter_topic("orders", {name: value}) for name, value in settings.items()))
    assert settings.items() <= broker.topic("orders").config.settings().items()


async def test_topics_can_grow_be_purged_and_deleted_while_in_use(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    await broker.produce(topic.id, 0, frame(b"a", b"b"))
    assert await broker.add_partitions("orders", 3) == (1, 3)
    await broker.produce(topic.id, 2, frame(b"c"))
    await broker.purge_topic("orders")
    details = await broker.describe("orders")
    assert [(p.start_offset, p.end_offset) for p in details.partitions] == [(2, 2), (0, 0), (1, 1)]
    await broker.delete_topic("orders")
    with pytest.raises(TopicNotFound):
        broker.produce(topic.id, 0, frame(b"x"))
    fetched = await fetch_one(broker, FetchPart(topic.id, 0, 0, 100))
    assert isinstance(fetched.error, TopicNotFound)
    again = await broker.create_topic("orders", {})
    assert again.id != topic.id
    with pytest.raises(TopicExists):
        await broker.create_topic("orders", {})


async def test_topics_are_created_by_publishing_only_where_that_is_allowed(broker: Broker) -> None:
    with pytest.raises(TopicNotFound):
        await broker.publish("orders", [NewMessage(value=b"x")])
    willing = Broker(MemoryStorage(), settings=BrokerSettings(auto_create=True))
    await willing.start()
    results = await asyncio.gather(*(willing.publish("orders", [NewMessage(value=b"x")]) for _ in range(3)))
    assert not any(isinstance(place, QuiverError) for places in results for place in places)
    await willing.stop()


async def test_a_stopped_broker_refuses_work_and_has_finished_what_it_took() -> None:
    broker = Broker(MemoryStorage())
    await broker.start()
    topic = await broker.create_topic("orders", {})
    accepted = broker.produce(topic.id, 0, frame(b"a"))
    await broker.stop()
    assert (await accepted).base_offset == 0
    with pytest.raises(ShuttingDown):
        broker.produce(topic.id, 0, frame(b"b"))
