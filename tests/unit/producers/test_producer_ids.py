"""Ids and epochs of producers are never given out twice."""

import asyncio

from tests.unit.coordination.metadata import Metadata

from quiver.producers.service import ProducerIds
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock


async def opened(storage: MemoryStorage) -> ProducerIds:
    metadata = Metadata()
    producer_ids = ProducerIds(metadata.view, clock=SystemClock())
    await metadata.open(storage)
    await producer_ids.open(storage, 1)
    return producer_ids


async def test_ids_are_never_given_out_twice() -> None:
    storage = MemoryStorage()
    seen: list[int] = []
    for _ in range(3):
        producer_ids = await opened(storage)
        assert not producer_ids.was_given(max(seen, default=0) + 5_000, 0)
        seen += await asyncio.gather(*(producer_ids.new() for _ in range(1500)))
        assert all(producer_ids.was_given(each, 0) for each in seen)
        assert not producer_ids.was_given(max(seen) + 1, 0)
    assert len(set(seen)) == len(seen)


async def test_epochs_outlive_a_restart_and_are_given_in_turn() -> None:
    storage = MemoryStorage()
    producer_ids = await opened(storage)
    first = await producer_ids.new()
    assert await producer_ids.next_epoch(first, 0) == (first, 1)
    assert await producer_ids.next_epoch(first, 0) == (first, 1), "a repeat of the request"
    again = await opened(storage)
    assert again.was_given(first, 1)
    assert not again.was_given(first, 2)
    assert await again.next_epoch(first, 1) == (first, 2)
    unknown, epoch = await again.next_epoch(first, 7)
    assert (unknown != first, epoch) == (True, 0)
