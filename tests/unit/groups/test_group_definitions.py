import asyncio

import pytest
from tests.unit.coordination.metadata import Metadata

from quiver.cluster.placement import GROUP_SHARDS, group_shard
from quiver.groups.service import Groups
from quiver.groups.settings import GroupSettings
from quiver.model.errors import GroupKindMismatch, GroupOrderingMismatch, InvalidName, InvalidSetting
from quiver.model.queue import QueueSettings
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
async def groups(storage: MemoryStorage) -> Groups:
    return (await _open(storage))[0]


async def _open(storage: MemoryStorage) -> tuple[Groups, Metadata]:
    metadata = Metadata()
    groups = Groups(metadata.view, clock=SystemClock())
    await metadata.open(storage)
    return groups, metadata


async def test_kind_and_ordering_are_fixed_at_the_first_use(groups: Groups) -> None:
    group = await groups.queue_group("senders", "key")
    assert (group.kind, group.ordering) == ("queue", "key")
    assert await groups.queue_group("senders", None) is group
    with pytest.raises(GroupOrderingMismatch):
        await groups.queue_group("senders", "none")
    with pytest.raises(GroupKindMismatch):
        await groups.stream_group("senders")
    assert (await groups.stream_group("billing")).kind == "stream"
    with pytest.raises(GroupKindMismatch):
        await groups.queue_group("billing", None)
    with pytest.raises(InvalidName):
        await groups.queue_group("no spaces", None)


async def test_ids_are_never_given_twice(storage: MemoryStorage) -> None:
    groups, metadata = await _open(storage)
    made = await asyncio.gather(*(groups.queue_group(f"g{number % 5}", None) for number in range(20)))
    assert all(group.id % GROUP_SHARDS == group_shard(group.name) for group in made)
    ids = {group.id // GROUP_SHARDS for group in made}
    assert sorted(ids) == [1, 2, 3, 4, 5]
    await groups.delete("g4")
    await metadata.close()
    again, _ = await _open(storage)
    assert again.group("g3").id == made[3].id
    assert (await again.queue_group("g4", None)).id // GROUP_SHARDS not in ids


def test_a_group_has_the_settings_of_the_topic_unless_it_has_its_own() -> None:
    topic = QueueSettings(max_attempts=9, visibility_ms=5_000)
    own = GroupSettings().changed({"max_attempts": 2, "backoff": "3s", "offsets_retention": "1d"})
    effective = own.for_topic(topic)
    assert (effective.max_attempts, effective.backoff_ms, effective.visibility_ms) == (2, 3_000, 5_000)
    assert own.settings() == {"offsets_retention": "1d", "max_attempts": 2, "backoff": "3s"}
    given_back = own.changed({"max_attempts": None})
    assert given_back.for_topic(topic).max_attempts == 9
    assert given_back.for_topic(topic).backoff_ms == 3_000


def test_every_bad_setting_is_named() -> None:
    with pytest.raises(InvalidSetting) as refused:
        GroupSettings().changed({"max_attempts": 0, "visibility": "soon", "colour": "red", "backoff": "1s"})
    assert all(name in str(refused.value) for name in ("max_attempts", "visibility", "colour"))
    assert "'backoff'" not in str(refused.value)
