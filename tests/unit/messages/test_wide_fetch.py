"""A fetch of many partitions that waits: one message wakes it, and only where it is."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart
from quiver.model.errors import TopicNotFound
from quiver.records.build import build_frame
from quiver.records.read import open_frame
from quiver.storage.memory.storage import MemoryStorage

WIDE = 200


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    yield broker
    await broker.stop()


async def wide_topic(broker: Broker) -> list[FetchPart]:
    topic = await broker.create_topic("wide", {"partitions": WIDE})
    return [FetchPart(topic.id, number, 0, 1 << 20) for number in range(WIDE)]


def waiting_fetch(broker: Broker, parts: list[FetchPart], min_bytes: int = 1) -> "asyncio.Task[list[FetchedSlice]]":
    return asyncio.create_task(broker.fetch(parts, FetchOptions(60_000, min_bytes, 1 << 20)))


async def parked(broker: Broker, parts: list[FetchPart]) -> None:
    """Returns when somebody waits for the last of the partitions."""
    last = broker._partitions.get(parts[-1].topic_id, parts[-1].partition)
    while not last.committed._watchers:
        await asyncio.sleep(0)


async def values_of(fetched: FetchedSlice) -> list[bytes | None]:
    assert fetched.slice is not None
    data = await fetched.slice.read()
    fetched.slice.release()
    return open_frame(data).values()


async def test_it_looks_again_only_at_what_has_changed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = await wide_topic(broker)
    waiting = waiting_fetch(broker, parts)
    await parked(broker, parts)
    looked_at: list[int] = []
    read = broker._fetch._read

    async def noted(chosen, wanted):
        looked_at.extend(part.partition for part in chosen)
        return await read(chosen, wanted)

    monkeypatch.setattr(broker._fetch, "_read", noted)
    await broker.produce(parts[0].topic_id, 7, build_frame([b"news"], timestamp_ms=1))
    answer = await asyncio.wait_for(waiting, 5)
    assert looked_at == [7]
    assert [fetched.part.partition for fetched in answer] == list(range(WIDE))
    assert [number for number, fetched in enumerate(answer) if fetched.slice is not None] == [7]
    assert await values_of(answer[7]) == [b"news"]
    assert not any(partition.committed._watchers for partition in broker._partitions.of(parts[0].topic_id))


async def test_what_comes_after_the_first_look_and_before_the_wait_is_seen(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = await wide_topic(broker)
    read, is_first = broker._fetch._read, True

    async def then_a_message(chosen, wanted):
        nonlocal is_first
        answer = await read(chosen, wanted)
        if is_first:
            is_first = False
            await broker.produce(parts[0].topic_id, 3, build_frame([b"between"], timestamp_ms=1))
        return answer

    monkeypatch.setattr(broker._fetch, "_read", then_a_message)
    answer = await asyncio.wait_for(waiting_fetch(broker, parts), 5)
    assert await values_of(answer[3]) == [b"between"]


async def test_too_little_is_kept_together_until_there_is_enough(broker: Broker) -> None:
    parts = await wide_topic(broker)
    waiting = waiting_fetch(broker, parts, min_bytes=1200)
    for number in (5, 150, 5):
        await parked(broker, parts)
        assert not waiting.done()
        await broker.produce(parts[0].topic_id, number, build_frame([b"x" * 300], timestamp_ms=1))
    answer = await asyncio.wait_for(waiting, 5)
    found = {number: fetched.slice.length for number, fetched in enumerate(answer) if fetched.slice is not None}
    assert sorted(found) == [5, 150]
    assert sum(found.values()) >= 1200
    for number in found:
        answer[number].slice.release()


async def test_a_topic_that_is_deleted_meanwhile_ends_the_wait(broker: Broker) -> None:
    parts = await wide_topic(broker)
    waiting = waiting_fetch(broker, parts)
    await parked(broker, parts)
    await broker.delete_topic("wide")
    answer = await asyncio.wait_for(waiting, 5)
    assert isinstance(next(fetched.error for fetched in answer if fetched.error is not None), TopicNotFound)
