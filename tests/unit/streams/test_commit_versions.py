"""What a group was told, and how often: decided when a record is applied, also for records of before."""

import msgspec

from quiver.model.names import TopicPartition
from quiver.queues.journal.events import Began, Event, Rewound, SettledBelow
from quiver.streams.events import Committed, OffsetsCommitted
from quiver.streams.state import StreamGroup, StreamTable

PLACE = TopicPartition(1, 0)


def made() -> tuple[StreamTable, StreamGroup]:
    table = StreamTable()
    return table, table.group(1)


def told(
    offset: int, *, transaction: int | None = None, is_first: bool = False, version: int = 1
) -> OffsetsCommitted:
    return OffsetsCommitted(1, [(PLACE, Committed(offset, 7, version=version))], transaction, is_first)


def test_every_commit_counts_the_version_up() -> None:
    table, group = made()
    for number, offset in enumerate([3, 9, 4], 1):
        table.apply(told(offset))
        assert (group.offsets[PLACE].offset, group.offsets[PLACE].version) == (offset, number)


def test_a_first_position_counts_where_there_is_none() -> None:
    table, group = made()
    table.apply(told(0, is_first=True, version=0))
    table.apply(told(8, is_first=True))
    assert (group.offsets[PLACE].offset, group.offsets[PLACE].version) == (0, 0)
    table.apply(told(8))
    assert (group.offsets[PLACE].offset, group.offsets[PLACE].version) == (8, 1)


def test_a_decision_counts_once_and_not_behind_a_later_one() -> None:
    table, group = made()
    table.apply(told(2, transaction=1))
    table.apply(told(6, transaction=3))
    table.apply(told(7))
    for again in (3, 1, 2):
        table.apply(told(4, transaction=again))
    assert (group.offsets[PLACE].offset, group.offsets[PLACE].version) == (7, 3)
    table.apply(told(4, transaction=4))
    assert group.offsets[PLACE].offset == 4


def test_a_snapshot_keeps_versions() -> None:
    table, _ = made()
    table.apply(told(2, transaction=9))
    table.apply(told(5))
    again = StreamTable()
    again.restore(b"".join(table.snapshot()))
    assert again.groups[1].offsets == table.groups[1].offsets


def test_records_without_versions_are_read() -> None:
    record = b'{"type":"offsets_committed","group_id":1,"offsets":[[[1,0],[5,7,"note"]]],"transaction":null}'
    committed = msgspec.json.decode(record, type=OffsetsCommitted).offsets[0][1]
    assert committed == Committed(5, 7, "note", version=1, decision=0)
    events = [[0, 4, "none", True, 3], [6, 4, 8], [7, 4, 2]]
    decoded = [msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) for event in events]
    assert decoded == [Began(4, "none", True, 3, 0), SettledBelow(4, 8, None), Rewound(4, 2, None)]
