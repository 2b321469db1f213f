"""The partitions of a queue are counted while messages are removed."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.gateways.queen.partition_index import PartitionIndex
from quiver.model.message import NewMessage
from quiver.storage.memory.storage import MemoryStorage


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("t", {"partitions": 1})
    yield broker
    await broker.stop()


async def publish(broker: Broker, *keys: bytes) -> None:
    await broker.publish("t", [NewMessage(value=b"x", key=key) for key in keys])


@pytest.mark.parametrize("was_counted", [False, True])
async def test_what_is_removed_before_it_is_counted_does_not_count(broker: Broker, was_counted: bool) -> None:
    topic, index = broker.topic("t"), PartitionIndex(broker)
    await publish(broker, b"a", b"a", b"b")
    if was_counted:
        await index.counts(topic, await broker.describe("t"), is_complete=True)
        await publish(broker, b"a")
    looked_at = await broker.describe("t")
    await broker.purge_topic("t")
    await publish(broker, b"c")
    assert await index.counts(topic, looked_at, is_complete=True) == Counter({b"c": 1})
    assert await index.counts(topic, await broker.describe("t"), is_complete=True) == Counter({b"c": 1})
