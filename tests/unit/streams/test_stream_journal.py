"""Members and offsets live as long as their group: the order of two journals, and what a kill in between leaves."""

import pytest
from tests.unit.coordination.metadata import Metadata

from quiver.cluster.placement import ALONE, Placement, group_shard
from quiver.groups.service import Groups
from quiver.model.errors import GroupNotFound, ShuttingDown
from quiver.model.names import TopicPartition
from quiver.storage.memory.storage import MemoryStorage
from quiver.streams.events import Committed, Event, OffsetsCommitted
from quiver.streams.journal.journal import StreamJournal
from quiver.system.clock import SystemClock

PLACE = TopicPartition(1, 0)


async def opened(storage: MemoryStorage, placement: Placement = ALONE) -> tuple[Groups, StreamJournal]:
    metadata = Metadata()
    groups = Groups(metadata.view, clock=SystemClock())
    await metadata.open(storage)
    journal = StreamJournal(groups, clock=SystemClock(), placement=placement)
    await journal.open(storage, await storage.next_start_epoch())
    return groups, journal


def commit(group_id: int, offset: int) -> OffsetsCommitted:
    return OffsetsCommitted(group_id, [(PLACE, Committed(offset, 7))])


@pytest.mark.parametrize("with_snapshot", [False, True])
async def test_a_group_that_was_deleted_leaves_nothing_behind(with_snapshot: bool) -> None:
    storage = MemoryStorage()
    groups, journal = await opened(storage)
    first = await groups.stream_group("g")
    await journal.append(commit(first.id, 5))
    if with_snapshot:
        await journal._shards[group_shard("g")].journaled.snapshot()
    await groups.delete("g")  # and killed before the journal of stream groups has forgotten it
    groups, journal = await opened(storage)
    assert journal.groups() == []
    second = await groups.stream_group("g")
    assert second.id != first.id
    assert journal.group("g").offsets == {}
    await journal.close()


async def test_a_record_that_comes_after_the_deletion_means_nothing() -> None:
    groups, journal = await opened(MemoryStorage())
    group, seen = await groups.stream_group("g"), list[Event]()
    journal.subscribe(seen.append)
    await groups.delete("g")
    journal.forget(group.id)
    await journal.append(commit(group.id, 5))
    assert (journal.groups(), seen) == ([], [])
    with pytest.raises(GroupNotFound):
        journal.group("g")
    await journal.close()


async def test_subscribers_see_an_event_in_the_step_in_which_it_is_applied() -> None:
    groups, journal = await opened(MemoryStorage())
    group, seen = await groups.stream_group("g"), list[int]()
    journal.subscribe(lambda event: seen.append(journal.group("g").offsets[PLACE].offset))
    for offset in (3, 9, 4):
        await journal.append(commit(group.id, offset))
    assert seen == [3, 9, 4]
    await journal.close()


async def test_nothing_is_written_after_the_end_has_begun() -> None:
    groups, journal = await opened(MemoryStorage())
    group = await groups.stream_group("g")
    journal.begin_close()
    with pytest.raises(ShuttingDown):
        await journal.append(commit(group.id, 1))
    await journal.close()


async def test_a_worker_has_the_groups_of_its_shards_only() -> None:
    storage = MemoryStorage()
    groups, journal = await opened(storage)
    made = [await groups.stream_group(f"g{number}") for number in range(40)]
    for group in made:
        await journal.append(commit(group.id, group.id))
    assert len(journal.groups()) == 40
    await journal.close()
    kept: list[int] = []
    for worker in range(3):
        _, journal = await opened(storage, Placement(worker, 3))
        kept += [group_id for group_id, _ in journal.groups()]
        for group in made:
            if journal.owns(group.id):
                assert journal.group(group.name).offsets[PLACE].offset == group.id
            else:
                assert journal.find(group.id) is None
                with pytest.raises(GroupNotFound, match="ask their owner"):
                    await journal.append(commit(group.id, 1))
        await journal.close()
    assert sorted(kept) == sorted(group.id for group in made)
