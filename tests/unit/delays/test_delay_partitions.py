"""Delays that are opened when they are first needed: calls wait for that, in order, and fail with it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.model.message import NewMessage
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Log, LogOptions
from quiver.system.clock import SystemClock

FAR_MS = SystemClock().now_ms() + 3_600_000


class Stubborn(MemoryStorage):
    """Cannot open schedule logs until it is told to."""

    fails = False

    async def open_log(self, log_id: str, options: LogOptions) -> Log:
        if self.fails and log_id.endswith("-schedule"):
            raise OSError("the disk is gone")
        return await super().open_log(log_id, options)


@pytest.fixture
def storage() -> Stubborn:
    return Stubborn()


@pytest.fixture
async def broker(storage: Stubborn) -> AsyncIterator[Broker]:
    broker = Broker(storage)
    await broker.start()
    await broker.create_topic("t", {"partitions": 1})
    yield broker
    await broker.stop()


def later(broker: Broker, count: int) -> "list[asyncio.Future[int]]":
    async def id_of(value: bytes) -> int:
        message = NewMessage(value=value, deliver_at_ms=FAR_MS)
        return (await broker.delays.schedule_message(broker.topic("t"), 0, message)).base_offset

    return [asyncio.ensure_future(id_of(b"%d" % number)) for number in range(count)]


async def test_calls_that_wait_for_the_opening_are_made_in_order(broker: Broker) -> None:
    assert await asyncio.gather(*later(broker, 5)) == [0, 1, 2, 3, 4]
    assert await asyncio.gather(*later(broker, 2)) == [5, 6]


async def test_calls_fail_with_the_opening_and_the_next_one_tries_again(broker: Broker, storage: Stubborn) -> None:
    storage.fails = True
    failed = await asyncio.gather(*later(broker, 3), return_exceptions=True)
    assert [str(error) for error in failed] == ["the disk is gone"] * 3
    assert broker.node.problems() == {"delays of t-0": "the disk is gone"}
    storage.fails = False
    assert await asyncio.gather(*later(broker, 2)) == [0, 1]
    assert broker.node.problems() == {}


async def test_nothing_stays_open_of_a_topic_that_is_removed_meanwhile(broker: Broker) -> None:
    waiting = later(broker, 1)
    await asyncio.sleep(0)
    await broker.delete_topic("t")
    await asyncio.gather(*waiting, return_exceptions=True)
    assert broker.delays._partitions.all() == []
