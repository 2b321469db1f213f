import asyncio
from typing import Any

import pytest
from tests.unit.coordination.metadata import Metadata

from quiver.coordination.view import View
from quiver.model.errors import InvalidSetting, TopicExists, TopicNotFound
from quiver.model.limits import MIB, Limits
from quiver.model.topic import Topic, TopicConfig
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock
from quiver.system.randomness import SystemRandomness
from quiver.testing.memory_coordination import MemoryCoordination
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.state import TopicChange


async def service_on(storage: MemoryStorage, limits: Limits | None = None) -> TopicCatalogue:
    metadata = Metadata()
    service = TopicCatalogue(
        metadata.view,
        clock=SystemClock(),
        randomness=SystemRandomness(),
        defaults=TopicConfig(),
        limits=limits or Limits(),
    )
    await metadata.open(storage)
    await service.open()
    return service


async def create(service: TopicCatalogue, name: str, settings: dict[str, Any]) -> Topic:
    """A topic that is found, as if its partitions were open."""
    topic = await service.create(name, settings)
    service.show(topic)
    return topic


async def test_topics_outlive_the_service() -> None:
    storage = MemoryStorage()
    service = await service_on(storage)
    created = await create(service, "orders", {"partitions": 6, "retention": "1h"})
    await create(service, "gone", {})
    await service.delete("gone")
    await service.alter("orders", {"durability": "interval"})
    node_id = service.node_id
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


async def test_two_processes_see_the_same_topics_in_the_same_order() -> None:
    coordination = MemoryCoordination()
    views = [View(coordination) for _ in range(2)]
    services = [
        TopicCatalogue(
            view, clock=SystemClock(), randomness=SystemRandomness(), defaults=TopicConfig(), limits=Limits()
        )
        for view in views
    ]
    seen: list[list[TopicChange]] = [[], []]
    for view, service, changes in zip(views, services, seen, strict=True):
        await view.open()
        await service.open()
        service.on_change = changes.append
    made = await asyncio.gather(
        *(services[n % 2].create(f"t{n // 2}", {}) for n in range(20)), return_exceptions=True
    )
    assert sum(isinstance(each, TopicExists) for each in made) == 10
    for service in services:
        for topic in service.stored():
            service.show(topic)
    await asyncio.gather(
        *(services[n % 2].alter("t0", {"partitions": 4 + n}) for n in range(4)),
        services[0].alter("t1", {"retention": "1h"}),
        services[1].alter("t1", {"durability": "interval"}),
        return_exceptions=True,
    )
    await services[0].delete("t2")
    assert len({view.revision for view in views}) == 1 or await views[1].reached(views[0].revision) is None
    assert seen[0] == seen[1]
    assert services[0].stored() == services[1].stored()
    config = services[1].topic("t1").config
    assert (config.retention_ms, config.durability) == (3_600_000, "interval"), "no change is lost"
    assert len({change.after.id for change in seen[0] if change.before is None and change.after}) == 10


async def test_a_message_limit_over_the_frame_limit_is_refused_and_a_stored_one_is_left_in_peace() -> None:
    storage = MemoryStorage()
    service = await service_on(storage)
    await create(service, "orders", {"max_message_bytes": 16 * MIB})
    for settings in ({"max_message_bytes": 16 * MIB + 1}, {"max_message_bytes": 64 * MIB}):
        with pytest.raises(InvalidSetting, match="max_frame_bytes"):
            await service.alter("orders", settings)
        with pytest.raises(InvalidSetting, match="max_frame_bytes"):
            await create(service, "others", settings)

    smaller = await service_on(storage, Limits(frame_bytes=MIB))
    altered = await smaller.alter("orders", {"retention": "1h"})
    assert altered.config.max_message_bytes == 16 * MIB, "what was set stays set"
    assert Limits(frame_bytes=MIB).for_messages(altered.config.max_message_bytes).message_bytes == MIB
