"""Members and offsets live as long as their group: the order of two journals, and what a kill in between leaves."""

import pytest

from quiver.groups.service import Groups
from quiver.model.errors import CorruptData, GroupNotFound, ShuttingDown
from quiver.model.names import TopicPartition
from quiver.storage.memory.storage import MemoryStorage
from quiver.streams.events import Committed, Event, OffsetsCommitted
from quiver.streams.journal import StreamJournal
from quiver.system.clock import SystemClock

PLACE = TopicPartition(1, 0)


async def opened(storage: MemoryStorage) -> tuple[Groups, StreamJournal]:
    groups = Groups(clock=SystemClock())
    journal, epoch = StreamJournal(groups, clock=SystemClock()), await storage.next_start_epoch()
    await groups.open(storage, epoch)
    await journal.open(storage, epoch)
    return groups, journal


async def closed(groups: Groups, journal: StreamJournal) -> None:
    await journal.close()
    await groups.close()


def commit(group_id: int, offset: int) -> OffsetsCommitted:
    return OffsetsCommitted(group_id, [(PLACE, Committed(offset, 7))])


@pytest.mark.parametrize("with_snapshot", [False, True])
async def test_a_group_that_was_deleted_leaves_nothing_behind(with_snapshot: bool) -> None:
    storage = MemoryStorage()
    groups, journal = await opened(storage)
    first = await groups.stream_group("g")
    await journal.append(commit(first.id, 5))
    if with_snapshot:
        await journal._journaled.snapshot()
    await groups.delete("g")  # and killed before the journal of stream groups has forgotten it
    groups, journal = await opened(storage)
    assert journal.groups() == {}
    second = await groups.stream_group("g")
    assert second.id != first.id
    assert journal.group("g").offsets == {}
    await closed(groups, journal)


async def test_a_record_that_comes_after_the_deletion_means_nothing() -> None:
    groups, journal = await opened(MemoryStorage())
    group, seen = await groups.stream_group("g"), list[Event]()
    journal.subscribe(seen.append)
    await groups.delete("g")
    journal.forget(group.id)
    await journal.append(commit(group.id, 5))
    assert (journal.groups(), seen) == ({}, [])
    with pytest.raises(GroupNotFound):
        journal.group("g")
    await closed(groups, journal)


async def test_subscribers_see_an_event_in_the_step_in_which_it_is_applied() -> None:
    groups, journal = await opened(MemoryStorage())
    group, seen = await groups.stream_group("g"), list[int]()
    journal.subscribe(lambda event: seen.append(journal.group("g").offsets[PLACE].offset))
    for offset in (3, 9, 4):
        await journal.append(commit(group.id, offset))
    assert seen == [3, 9, 4]
    await closed(groups, journal)


async def test_nothing_is_written_after_the_end_has_begun() -> None:
    groups, journal = await opened(MemoryStorage())
    group = await groups.stream_group("g")
    journal.begin_close()
    with pytest.raises(ShuttingDown):
        await journal.append(commit(group.id, 1))
    await closed(groups, journal)


async def test_without_groups_there_are_no_stream_groups() -> None:
    groups = Groups(clock=SystemClock())
    groups._journaled.refuse(CorruptData(where="internal/groups", problem="it is damaged", next_offset=0))
    journal = StreamJournal(groups, clock=SystemClock())
    await journal.open(MemoryStorage(), 1)
    assert journal.problem is groups.problem
    with pytest.raises(CorruptData):
        journal.group("g")
