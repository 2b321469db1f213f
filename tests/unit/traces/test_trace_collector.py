"""Spans of sampled messages, in a broker on the memory engine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.model.errors import InvalidRequest, TraceNotFound
from quiver.model.message import NewMessage
from quiver.model.settlement import EXTEND, NACK, REJECT
from quiver.model.trace.span import Trace, TraceFilter
from quiver.traces import collector
from unit.queues.queue_broker import QueueBroker

EVERYTHING = TraceFilter()


@pytest.fixture
async def broker() -> AsyncIterator[QueueBroker]:
    held = QueueBroker()
    await held.start()
    await held.broker.create_topic("t", {"partitions": 1})
    yield held
    await held.broker.stop()


def trace_id(number: int) -> str:
    return f"{number:032x}"


def traced(number: int, *, key: bytes | None = None, is_sampled: bool = True) -> NewMessage:
    flags = "01" if is_sampled else "00"
    headers = {"traceparent": f"00-{trace_id(number)}-b7ad6b7169203331-{flags}".encode()}
    return NewMessage(value=b"x", key=key, headers=headers)


def events(trace: Trace) -> list[str]:
    return [span.event_type for span in trace.spans]


async def test_a_trace_from_publish_to_ack(broker: QueueBroker) -> None:
    await broker.publish_each("t", traced(1, key=b"k"), NewMessage(value=b"y"), traced(3, is_sampled=False))
    received = await broker.receive("t", consumer="me")
    broker.clock.ms += 40
    await broker.settle(received)
    trace = await broker.broker.traces.get(trace_id(1))
    assert events(trace) == ["publish.persisted", "consume.fetched", "consume.acked"]
    published, fetched, acked = trace.spans
    assert (published.parent_span_id, fetched.parent_span_id) == ("b7ad6b7169203331", published.span_id)
    assert (acked.time_ms, acked.duration_ms) == (fetched.time_ms, 40)
    assert {(span.topic, span.partition, span.offset, span.key) for span in trace.spans} == {("t", 0, 0, "k")}
    assert (acked.group, acked.consumer, acked.attempt, trace.status) == ("g", "me", 1, "completed")
    assert [each.trace_id for each in await broker.broker.traces.search(EVERYTHING, 10)] == [trace_id(1)]


async def test_without_sampled_messages_there_is_no_topic(broker: QueueBroker) -> None:
    await broker.publish_each("t", NewMessage(value=b"y"), traced(3, is_sampled=False))
    assert await broker.broker.traces.search(EVERYTHING, 10) == []
    assert [topic.name for topic in broker.broker.topics()] == ["t"]
    with pytest.raises(TraceNotFound):
        await broker.broker.traces.get(trace_id(3))
    with pytest.raises(InvalidRequest, match="32 hexadecimal digits"):
        await broker.broker.traces.get("3")


async def test_everything_that_can_happen(broker: QueueBroker) -> None:
    await broker.publish_each("t", traced(1))
    first = await broker.receive("t")
    assert events(await broker.broker.traces.get(trace_id(1)))[-1] == "consume.fetched"
    await broker.settle(first, NACK, reason="later", delay_ms=0)
    second = await broker.receive("t")
    await broker.settle(second, EXTEND, delay_ms=60_000)
    await broker.wait(61_000)
    third = await broker.receive("t")
    await broker.settle(third, REJECT, reason="never")
    while "dlq.routed" not in events(trace := await broker.broker.traces.get(trace_id(1))):
        await asyncio.sleep(0)
    assert sorted(events(trace)) == [
        *["consume.fetched"] * 3,
        *("consume.nacked", "consume.rejected", "dlq.routed", "publish.persisted"),
        *("visibility.expired", "visibility.extended"),
    ]
    assert {span.error for span in trace.spans} == {"", "later", "never", "the lease expired"}
    assert trace.status == "error"
    assert len({span.span_id for span in trace.spans}) == len(trace.spans)


async def test_what_was_sampled_while_others_are_followed(broker: QueueBroker) -> None:
    """The journal was read further for the first message than where the second can be in it."""
    await broker.publish_each("t", traced(1))
    await broker.receive("t", count=1)
    await broker.broker.traces.get(trace_id(1))
    await broker.publish_each("t", traced(2))
    received = await broker.receive("t", count=1)
    await broker.settle(received)
    assert events(await broker.broker.traces.get(trace_id(2))) == [
        *("publish.persisted", "consume.fetched", "consume.acked"),
    ]
    assert events(await broker.broker.traces.get(trace_id(1))) == ["publish.persisted", "consume.fetched"]


async def test_search(broker: QueueBroker) -> None:
    await broker.broker.create_topic("u", {"partitions": 1})
    for number in range(1, 6):
        await broker.publish_each("t" if number % 2 else "u", traced(number, key=str(number).encode()))
        broker.clock.ms += 1_000
    received = await broker.receive("u", group="late", count=1)
    await broker.settle(received)

    async def found(**wanted: object) -> list[int]:
        traces = await broker.broker.traces.search(TraceFilter(**wanted), 10)  # type: ignore[arg-type]
        return [int(trace.trace_id, 16) for trace in traces]

    start_ms = broker.clock.ms - 5_000
    assert await found() == [5, 4, 3, 2, 1]
    assert await found(topic="u") == [4, 2]
    assert await found(key="3") == [3]
    assert await found(group="late") == await found(status="completed") == await found(min_duration_ms=1_500) == [2]
    assert await found(start_ms=start_ms + 1_000, end_ms=start_ms + 3_000) == [4, 3, 2]
    assert await found(partition=1) == []
    assert len(await broker.broker.traces.search(EVERYTHING, 2)) == 2


async def test_spans_outlive_a_restart_and_old_ones_are_found(broker: QueueBroker) -> None:
    await broker.publish_each("t", traced(1))
    await broker.restart()  # writes what is known
    broker.clock.ms += 3 * 86_400_000
    assert [trace.trace_id for trace in await broker.broker.traces.search(EVERYTHING, 10)] == [trace_id(1)]
    await broker.publish_each("t", traced(1))
    assert events(await broker.broker.traces.get(trace_id(1))) == ["publish.persisted"] * 2


async def test_too_much_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MOST_NOTED", 2)
    broker = QueueBroker()
    await broker.start()
    await broker.broker.create_topic("t", {"partitions": 1})
    for number in range(1, 6):
        await broker.publish_each("t", traced(number))
    stats = await broker.broker.traces.stats()
    assert (stats.spans_in_buffer, stats.spans_dropped) == (2, 3)
    assert len(await broker.broker.traces.search(EVERYTHING, 10)) == 2
    await broker.broker.stop()


async def test_a_deleted_topic_and_foreign_rows(broker: QueueBroker) -> None:
    await broker.publish_each("t", traced(1))
    await broker.receive("t")
    assert len(await broker.broker.traces.search(EVERYTHING, 10)) == 1
    await broker.publish_each("t", traced(2))
    await broker.broker.delete_topic("t")
    await broker.publish_each("__traces", NewMessage(value=b"not a span"), NewMessage(value=None, key=b"k"))
    assert [trace.trace_id for trace in await broker.broker.traces.search(EVERYTHING, 10)] == [trace_id(1)]
    assert (await broker.broker.traces.stats()).traces_indexed == 0
    await broker.broker.delete_topic("__traces")
    assert await broker.broker.traces.search(EVERYTHING, 10) == []
