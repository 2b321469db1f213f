"""The life of messages in a broker on the memory engine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.dead_letters.search import Search
from quiver.model.dead_letter import DeadLetterFilter
from quiver.model.errors import MessageNotFound, PartitionNotFound, TopicNotFound
from quiver.model.message import NewMessage
from quiver.model.settlement import NACK, REJECT
from quiver.model.trace.life import MessageLife, Place
from quiver.records.build import build_frame
from unit.queues.queue_broker import QueueBroker

EVERYTHING = Search(DeadLetterFilter())


@pytest.fixture
async def broker() -> AsyncIterator[QueueBroker]:
    held = QueueBroker()
    await held.start()
    await held.broker.create_topic("t", {"partitions": 1})
    yield held
    await held.broker.stop()


def names(life: MessageLife) -> list[str]:
    return [event.event for event in life.events]


def states(life: MessageLife) -> dict[str, str]:
    return {each.group: each.state for each in life.groups}


async def life_with(held: QueueBroker, offset: int, wanted: str, topic: str = "t") -> MessageLife:
    """The life once it has an event, or a place, that arrives by itself."""
    while True:
        life = await held.broker.life.of(topic, 0, offset)
        found = [event for event in life.events if event.event == wanted]
        if found and all(event.to is None or event.to.offset is not None for event in found):
            return life
        await asyncio.sleep(0)


async def test_deliveries_of_two_groups(broker: QueueBroker) -> None:
    await broker.publish("t", b"a", b"b")
    assert names(await broker.broker.life.of("t", 0, 0)) == ["published", "appended"]
    received = await broker.receive("t", group="one", count=1)
    broker.clock.ms += 40
    await broker.settle(received)
    await broker.receive("t", group="two", consumer="me")
    life = await broker.broker.life.of("t", 0, 0)
    assert names(life) == ["published", "appended", "delivered", "acked", "delivered"]
    assert (life.events[2].group, life.events[2].duration_ms) == ("one", 40)
    assert (life.events[4].group, life.events[4].consumer) == ("two", "me")
    assert states(life) == {"one": "settled", "two": "leased"}
    assert states(await broker.broker.life.of("t", 0, 1)) == {"one": "waiting", "two": "leased"}
    await broker.restart()
    assert await broker.broker.life.of("t", 0, 0) == life


async def test_to_the_dead_letters_and_back(broker: QueueBroker) -> None:
    await broker.publish("t", b"a", b"b")
    received = await broker.receive("t")
    await broker.settle(received, NACK, runs=[(0, 1)], reason="later")
    await broker.settle(received, REJECT, runs=[(1, 2)], reason="never")
    assert states(await broker.broker.life.of("t", 0, 0)) == {"g": "retrying"}
    life = await life_with(broker, 1, "dead_lettered")
    assert life.events[-1].to == Place("t.dlq", 0, 0)
    assert (life.events[-1].reason, life.events[-1].error) == ("rejected", "never")
    assert states(life) == {"g": "dead"}
    letter = await broker.broker.life.of("t.dlq", 0, 0)
    assert names(letter) == ["published", "dead_lettered", "appended"]
    assert letter.events[1].origin == Place("t", 0, 1)

    await broker.broker.dead_letters.redrive("t", EVERYTHING)
    life = await life_with(broker, 1, "redriven")
    [dead, redriven] = life.events[-2:]
    assert (dead.to, redriven.origin, redriven.to) == (Place("t.dlq", 0, 0), Place("t.dlq", 0, 0), Place("t", 0, 2))
    back = await broker.broker.life.of("t", 0, 2)
    assert names(back) == ["published", "dead_lettered", "redriven", "appended"]
    assert (back.events[1].origin, back.events[1].group) == (Place("t", 0, 1), "g")
    assert back.events[2].origin == Place("t.dlq", 0, 0)


async def test_a_purged_dead_letter(broker: QueueBroker) -> None:
    await broker.publish("t", b"a")
    await broker.settle(await broker.receive("t"), REJECT)
    await life_with(broker, 0, "dead_lettered")
    await broker.broker.dead_letters.purge("t", EVERYTHING)
    assert names(await broker.broker.life.of("t", 0, 0))[-2:] == ["dead_lettered", "purged"]


async def test_a_delayed_message(broker: QueueBroker) -> None:
    now_ms = broker.clock.ms
    delayed = NewMessage(value=b"x", timestamp_ms=now_ms, deliver_at_ms=now_ms + 1)
    await broker.publish_each("t", NewMessage(value=b"first", timestamp_ms=now_ms), delayed)
    broker.clock.ms += 50
    while (await broker.broker.describe("t")).message_count < 2:
        await asyncio.sleep(0)
    life = await broker.broker.life.of("t", 0, 1)
    assert names(life) == ["published", "delayed", "appended"]
    assert (life.events[1].time_ms, life.events[1].until_ms, life.events[1].delayed_id) == (now_ms, now_ms + 1, 0)


async def test_transactions(broker: QueueBroker) -> None:
    inner = broker.broker
    for commit in (True, False):
        key = await inner.transactions.init(None, 60_000)
        frame = build_frame(
            [b"x"],
            timestamp_ms=broker.clock.ms,
            producer_id=key.producer_id,
            producer_epoch=key.epoch,
            base_sequence=0,
            transactional=True,
        )
        appended = await inner.produce(inner.topic("t").id, 0, frame)
        life = await inner.life.of("t", 0, appended.base_offset)
        assert names(life) == ["published", "appended"]
        assert life.events[1].transaction == f"{key.producer_id}:{key.epoch}"
        broker.clock.ms += 5
        if commit:
            await inner.transactions.commit([key])
        else:
            await inner.transactions.abort([key])
        life = await inner.life.of("t", 0, appended.base_offset)
        assert names(life)[-1] == ("transaction_committed" if commit else "transaction_aborted")
        assert life.events[-1].time_ms == broker.clock.ms
        with pytest.raises(MessageNotFound, match="the end of a transaction"):
            await inner.life.of("t", 0, appended.base_offset + 1)


async def test_the_trace_id_of_its_headers(broker: QueueBroker) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01".encode()}
    await broker.publish_each("t", NewMessage(value=b"x", headers=headers), NewMessage(value=b"y"))
    assert (await broker.broker.life.of("t", 0, 0)).trace == trace
    assert (await broker.broker.life.of("t", 0, 1)).trace == ""


async def test_a_journal_that_begins_after_the_message_says_so(broker: QueueBroker) -> None:
    await broker.publish("t", b"a", b"b")
    received = await broker.receive("t")
    topic = broker.broker.topic("t")
    queue = await broker.broker.queues.partition_queue(topic, 0)
    await queue.journal.log.roll()
    broker.clock.ms += 1_000
    await broker.settle(received, runs=[(0, 1)])
    await queue.journal.log.drop_front(queue.journal.log.end_offset - 1)
    life = await broker.broker.life.of("t", 0, 0)
    assert names(life) == ["published", "appended", "acked"]
    assert (life.known_since_ms, states(life)) == (broker.clock.ms, {"g": "settled"})
    assert "the journal of deliveries begins at" in life.notes[0]
    assert states(await broker.broker.life.of("t", 0, 1)) == {"g": "unknown"}
    await broker.publish("t", b"c")
    assert (await broker.broker.life.of("t", 0, 2)).known_since_ms is None


async def test_there_is_no_life_without_a_message(broker: QueueBroker) -> None:
    inner = broker.broker
    await broker.publish("t", b"a", b"b")
    with pytest.raises(MessageNotFound, match="the next message will have offset 2"):
        await inner.life.of("t", 0, 2)
    await inner.purge_topic("t")
    await broker.publish("t", b"c")
    with pytest.raises(MessageNotFound, match="removed everything before offset 2"):
        await inner.life.of("t", 0, 1)
    with pytest.raises(PartitionNotFound):
        await inner.life.of("t", 1, 0)
    with pytest.raises(TopicNotFound):
        await inner.life.of("u", 0, 0)


async def test_a_compacted_message(broker: QueueBroker) -> None:
    inner = broker.broker
    await inner.create_topic("table", {"partitions": 1, "cleanup": "compact"})
    for value in (b"1", b"2"):
        await broker.publish("table", value, keys=[b"k"])
    await inner.compact_topic("table")
    with pytest.raises(MessageNotFound, match="compaction has removed it"):
        await inner.life.of("table", 0, 0)
    assert names(await inner.life.of("table", 0, 1)) == ["published", "appended"]


async def test_a_topic_that_is_deleted_meanwhile(broker: QueueBroker) -> None:
    await broker.publish("t", b"a")
    await broker.settle(await broker.receive("t"))
    looks = [asyncio.ensure_future(broker.broker.life.of("t", 0, 0)) for _ in range(5)]
    await asyncio.sleep(0)
    await broker.broker.delete_topic("t")
    for outcome in await asyncio.gather(*looks, return_exceptions=True):
        assert isinstance(outcome, MessageLife | TopicNotFound), outcome
