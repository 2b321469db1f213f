"""The live tail: shows what comes, says what it leaves out, and holds nothing for a client that does not read."""

from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.model.errors import Overloaded, PartitionNotFound, ShuttingDown, TopicNotFound
from quiver.model.message import NewMessage
from quiver.search import tail as tail_module
from quiver.search.language.expression import Expression
from quiver.search.tail import TailPart, TailRequest
from quiver.storage.memory.storage import MemoryStorage


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    monkeypatch.setattr(tail_module, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(tail_module, "_LOOK_SECONDS", 600)
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("t", {"partitions": 2})
    yield broker
    await broker.stop()


async def publish(broker: Broker, *numbers: int, partition: int = 0) -> None:
    await broker.publish("t", [NewMessage(value=b'{"n": %d}' % n, partition=partition) for n in numbers])


def offsets(part: TailPart) -> list[tuple[int, int]]:
    return [(message.partition, message.offset) for message in part.messages]


async def last(tail: AsyncIterator[TailPart]) -> None:
    async for _ in tail:
        pass


async def test_it_shows_what_comes_from_now_on(broker: Broker) -> None:
    await publish(broker, 1, 2, 3)
    tail = await broker.tails.follow(TailRequest("t"))
    assert await anext(tail) == TailPart([])
    await publish(broker, 4, 5, partition=0)
    assert offsets(await anext(tail)) == [(0, 3), (0, 4)]
    await publish(broker, 6, partition=1)
    assert offsets(await anext(tail)) == [(1, 0)]
    await tail.aclose()
    assert not broker.tails._open


async def test_one_partition_and_a_filter(broker: Broker) -> None:
    tail = await broker.tails.follow(TailRequest("t", Expression("value.n % 2 == 0"), partition=1))
    await anext(tail)
    await publish(broker, 2, 4, partition=0)
    await publish(broker, *range(10), partition=1)
    assert offsets(await anext(tail)) == [(1, n) for n in range(0, 10, 2)]
    await tail.aclose()


async def test_more_than_the_rate_is_dropped_and_counted_while_nobody_reads(broker: Broker) -> None:
    tail = await broker.tails.follow(TailRequest("t", rate=5))
    await anext(tail)
    for n in range(50):
        await publish(broker, *range(n * 10, n * 10 + 10))
    part = await anext(tail)
    assert part.dropped == 500 - len(part.messages)
    assert offsets(part) == [(0, n) for n in range(500 - len(part.messages), 500)]
    assert 1 <= len(part.messages) <= 5
    await tail.aclose()


async def test_with_a_filter_what_is_not_looked_at_is_counted(broker: Broker) -> None:
    tail = await broker.tails.follow(TailRequest("t", Expression("true"), rate=5))
    await anext(tail)
    for n in range(50):
        await publish(broker, *range(n * 10, n * 10 + 10))
    part = await anext(tail)
    assert len(part.messages) + part.dropped == 500
    assert 1 <= len(part.messages) <= 5
    await tail.aclose()


async def test_partitions_that_are_added_are_shown(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "HEARTBEAT_SECONDS", 0.01)
    tail = await broker.tails.follow(TailRequest("t"))
    await anext(tail)
    await broker.add_partitions("t", 3)
    await publish(broker, 1, partition=2)
    while not (part := await anext(tail)).messages:
        pass
    assert offsets(part) == [(2, 0)]
    await tail.aclose()


async def test_a_deleted_topic_and_a_stop_end_it(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "HEARTBEAT_SECONDS", 0.01)
    await broker.create_topic("other", {"partitions": 1})
    gone = await broker.tails.follow(TailRequest("t"))
    left = await broker.tails.follow(TailRequest("other"))
    await anext(gone)
    await anext(left)
    await broker.delete_topic("t")
    with pytest.raises(TopicNotFound, match="topic 't' was deleted"):
        await last(gone)
    await broker.tails.stop()
    with pytest.raises(ShuttingDown):
        await anext(left)
    assert not broker.tails._open


async def test_there_are_not_too_many(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "MOST_TAILS", 1)
    with pytest.raises(PartitionNotFound):
        await broker.tails.follow(TailRequest("t", partition=2))
    await broker.tails.follow(TailRequest("t"))  # never begun: it counts for nothing
    first = await broker.tails.follow(TailRequest("t"))
    await anext(first)
    with pytest.raises(Overloaded):
        await broker.tails.follow(TailRequest("t"))
    await first.aclose()
