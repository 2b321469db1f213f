"""Retention that removes a segment while somebody reads it: what was aborted there is shown to nobody."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from quiver.broker.broker import Broker
from quiver.messages.browse import BrowseRequest
from quiver.messages.fetch import FetchOptions, FetchPart
from quiver.messages.stored_rows import read_rows
from quiver.model.errors import OffsetOutOfRange
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.model.transaction import ProducerKey
from quiver.partition.partition import Partition
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage

Read = Callable[[Broker], Awaitable[list[bytes | None]]]


async def browse(broker: Broker) -> list[bytes | None]:
    return [message.value for message in (await broker.read_messages("t", 0, BrowseRequest())).messages]


async def rows(broker: Broker) -> list[bytes | None]:
    partition = broker._partitions.of(broker.topic("t").id)[0]
    found = read_rows(partition, 0, 10, lambda row: (row.message.value,))
    return [value for slice in [each async for each in found] for (value,) in slice]


async def fetch(broker: Broker) -> list[bytes | None]:
    start, values = 0, list[bytes | None]()
    while True:
        part = FetchPart(broker.topic("t").id, 0, start, 1000)
        [fetched] = await broker.fetch([part], FetchOptions(0, 1, 1 << 20))
        if isinstance(fetched.error, OffsetOutOfRange):
            start = int(fetched.error.details["earliest"])
            continue
        if fetched.slice is None:
            return values
        data = await fetched.slice.read()
        fetched.slice.release()
        for position, header in split_frames(data):
            start = header.next_offset
            is_aborted = header.is_transactional and any(header.producer_id == each for each, _ in fetched.aborted)
            if not header.is_control and not is_aborted:
                values += open_frame(data, position).values()


async def receive(broker: Broker) -> list[bytes | None]:
    received = await broker.queues.receive(ReceiveRequest([broker.topic("t").id], "g", consumer="c", wait_ms=2_000))
    return [value for one in received for value in open_frame(one.run.frame).values()]


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """One message was aborted. With the first read of it, it is removed, and another message stored."""
    broker = Broker(MemoryStorage())
    await broker.start()
    topic = await broker.create_topic("t", {"partitions": 1})
    key = await broker.transactions.init()
    await broker.transactions.publish(key.producer_id, key.epoch, "t", NewMessage(value=b"aborted"))
    await broker.transactions.abort([ProducerKey(key.producer_id, key.epoch)])
    partition: Partition = broker._partitions.of(topic.id)[0]
    read, removed = partition.log.read, False

    async def read_and_remove(offset: int, **options: int) -> object:
        nonlocal removed
        piece = await read(offset, **options)
        if piece is not None and not removed:
            removed = True
            await partition.purge()
            await partition.saved_state.save_now(roll=False)
            await broker.publish("t", [NewMessage(value=b"new")])
        return piece

    monkeypatch.setattr(partition.log, "read", read_and_remove)
    yield broker
    monkeypatch.undo()
    await broker.stop()


@pytest.mark.parametrize("read", [browse, rows, fetch, receive], ids=lambda read: read.__name__)
async def test_nobody_sees_what_was_aborted(broker: Broker, read: Read) -> None:
    found = await read(broker)
    assert b"aborted" not in found
    assert found == [b"new"] or found == []
    assert await browse(broker) == [b"new"]
