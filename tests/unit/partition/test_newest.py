"""How far each priority reaches: `CommittedView.newest`."""

import pytest

from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock


async def open_partition(storage: MemoryStorage, config: TopicConfig) -> Partition:
    log = await storage.open_log("topics/1/0", log_options(config))
    partition = Partition("t-0", log, PartitionSettings(config, Limits()), leader_epoch=1, clock=SystemClock())
    await partition.recover()
    return partition


@pytest.mark.parametrize("durability", ["fsync", "interval"])
async def test_each_priority_has_its_own_end(durability: str) -> None:
    storage = MemoryStorage()
    config = TopicConfig(durability=durability)  # type: ignore[arg-type]
    partition = await open_partition(storage, config)
    assert partition.committed.newest == [0] * 5
    for priority in (Priority.NORMAL, Priority.LOW, Priority.NORMAL):
        await partition.append_message(NewMessage(value=b"x", priority=priority))
    assert partition.committed.newest == [0, 0, 3, 2, 0]
    await partition.close()
    again = await open_partition(storage, config)
    assert again.committed.newest == [3] * 5, "after opening, every level may have something below the end"
    await again.close()


async def test_it_is_there_when_watchers_wake() -> None:
    partition = await open_partition(MemoryStorage(), TopicConfig())
    seen: list[list[int]] = []
    partition.committed.watch(lambda: seen.append(list(partition.committed.newest)))
    await partition.append_message(NewMessage(value=b"x", priority=Priority.CRITICAL))
    assert seen == [[1, 0, 0, 0, 0]]
    await partition.close()
