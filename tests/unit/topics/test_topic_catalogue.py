import asyncio
from typing import Any

import pytest

from quiver.model.errors import InvalidSetting, TopicExists, TopicNotFound
from quiver.model.limits import MIB, Limits
from quiver.model.topic import Topic, TopicConfig
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock
from quiver.system.randomness import SystemRandomness
from quiver.topics.catalogue import TopicCatalogue


async def service_on(storage: MemoryStorage, limits: Limits | None = None) -> TopicCatalogue:
    service = TopicCatalogue(
        clock=SystemClock(), randomness=SystemRandomness(), defaults=TopicConfig(), limits=limits or Limits()
    )
    await service.open(storage, await storage.next_start_epoch())
    return service


async def create(service: TopicCatalogue, name: str, settings: dict[str, Any]) -> Topic:
    """A topic that is found, as if its partitions were open."""
    topic = await service.create(name, settings)
    service.show(topic)
    return topic


@pytest.mark.parametrize("clean", [True, False])
async def test_topics_outlive_the_service_with_and_without_a_snapshot(clean: bool) -> None:
    storage = MemoryStorage()
    service = await service_on(storage)
    created = await create(service, "orders", {"partitions": 6, "retention": "1h"})
    await create(service, "gone", {})
    await service.delete("gone")
    await service.alter("orders", {"durability": "interval"})
    node_id = service.node_id
    if clean:
        await service.close()

    again = await service_on(storage)
    assert [topic.name for topic in again.topics()] == ["orders"]
    assert [topic.name for topic in again.deleting()] == ["gone"]
    assert again.topic("orders").id == created.id
    assert again.topic("orders").config == TopicConfig(partitions=6, retention_ms=3_600_000, durability="interval")
    assert again.node_id == node_id


async def test_a_recreated_topic_is_a_new_one() -> None:
    service = await service_on(MemoryStorage())
    first = await create(service, "orders", {})
    await service.delete("orders")
    second = await create(service, "orders", {})
    assert second.id > first.id


async def test_one_of_two_simultaneous_creations_wins() -> None:
    service = await service_on(MemoryStorage())
    results = await asyncio.gather(*(service.create("orders", {}) for _ in range(2)), return_exceptions=True)
    assert [type(result) for result in results].count(TopicExists) == 1


async def test_partitions_only_grow_and_nothing_changes_when_refused() -> None:
    service = await service_on(MemoryStorage())
    await create(service, "orders", {"partitions": 4})
    with pytest.raises(InvalidSetting, match="shrink"):
        await service.alter("orders", {"partitions": 3})
    grown = await service.alter("orders", {"partitions": 5})
    assert grown.config.partitions == 5
    with pytest.raises(TopicNotFound):
        await service.alter("other", {"partitions": 5})


async def test_producer_ids_are_never_given_out_twice() -> None:
    storage = MemoryStorage()
    seen: list[int] = []
    for _ in range(3):
        service = await service_on(storage)
        seen += await asyncio.gather(*(service.producer_ids.new() for _ in range(1500)))
    assert len(set(seen)) == len(seen)


async def test_a_message_limit_over_the_frame_limit_is_refused_and_a_stored_one_is_left_in_peace() -> None:
    storage = MemoryStorage()
    service = await service_on(storage)
    await create(service, "orders", {"max_message_bytes": 16 * MIB})
    for settings in ({"max_message_bytes": 16 * MIB + 1}, {"max_message_bytes": 64 * MIB}):
        with pytest.raises(InvalidSetting, match="max_frame_bytes"):
            await service.alter("orders", settings)
        with pytest.raises(InvalidSetting, match="max_frame_bytes"):
            await create(service, "others", settings)
    await service.close()

    smaller = await service_on(storage, Limits(frame_bytes=MIB))
    altered = await smaller.alter("orders", {"retention": "1h"})
    assert altered.config.max_message_bytes == 16 * MIB, "what was set stays set"
    assert Limits(frame_bytes=MIB).for_messages(altered.config.max_message_bytes).message_bytes == MIB
