"""Messages that are removed between the look at where the log begins and the read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from quiver.broker.broker import Broker
from quiver.messages.browse import BrowseRequest
from quiver.messages.stored_rows import read_rows
from quiver.model.errors import OffsetOutOfRange
from quiver.model.message import NewMessage
from quiver.partition.partition import Partition
from quiver.storage.memory.storage import MemoryStorage


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("t", {"partitions": 1})
    yield broker
    await broker.stop()


def partition_of(broker: Broker) -> Partition:
    return broker._partitions.get(broker.topic("t").id, 0)


async def publish(broker: Broker, *values: bytes) -> None:
    for value in values:
        await broker.publish("t", [NewMessage(value=value)])


def purge_before_read(broker: Broker, monkeypatch: pytest.MonkeyPatch, *after: bytes) -> None:
    """The next read finds all removed that was there when it was decided on, and other messages after it."""
    log = partition_of(broker).log
    read = log.read

    async def read_late(offset: int, **options: Any) -> Any:
        monkeypatch.setattr(log, "read", read)
        await broker.purge_topic("t")
        await publish(broker, *after)
        return await read(offset, **options)

    monkeypatch.setattr(log, "read", read_late)


@pytest.mark.parametrize("options", [{"offset": 0}, {"offset": 1}, {"from_time_ms": 1}, {}])
async def test_a_page_begins_at_the_earliest_that_is_left(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, options: dict[str, int]
) -> None:
    await publish(broker, b"a", b"b", b"c")
    purge_before_read(broker, monkeypatch, b"d")
    page = await broker.read_messages("t", 0, BrowseRequest(**options))
    assert (page.messages, page.next_offset) == ([], 3), "what came later belongs to the next page"
    page = await broker.read_messages("t", 0, BrowseRequest(offset=page.next_offset))
    assert [message.value for message in page.messages] == [b"d"]


async def test_rows_that_are_removed_are_stepped_over(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await publish(broker, b"a", b"b")
    purge_before_read(broker, monkeypatch)
    assert [rows async for rows in read_rows(partition_of(broker), 0, 2, lambda row: row)] == []


async def test_an_offset_behind_the_end_is_still_an_error_where_it_is_one(broker: Broker) -> None:
    await publish(broker, b"a")
    with pytest.raises(OffsetOutOfRange):
        await partition_of(broker).log.read(7, max_bytes=1)
