"""Commits of stream groups, from the records of their journal."""

import msgspec

from quiver.model.names import TopicPartition
from quiver.reader.commit_history import CommitHistory
from quiver.reader.delivery_history import UNKNOWN, Acknowledged
from quiver.streams.events import Committed, OffsetsCommitted, OffsetsForgotten

PLACE = TopicPartition(7, 0)


def commit(group: int, offset: int, at_ms: int, *, is_first: bool = False) -> bytes:
    return msgspec.json.encode(OffsetsCommitted(group, [(PLACE, Committed(offset, at_ms))], is_first=is_first))


def test_a_commit_covers_what_came_since_the_one_before() -> None:
    history = CommitHistory()
    for record in (
        commit(1, 10, 100, is_first=True),
        commit(1, 15, 200),
        commit(1, 99, 250, is_first=True),
        commit(2, 5, 300),
        commit(1, 12, 400),
        commit(1, 20, 500),
        msgspec.json.encode(OffsetsForgotten(1, 7)),
        commit(1, 50, 600),
    ):
        history.apply_record(record)
    assert history.commits == {PLACE: [Acknowledged(1, 10, 15, 200, UNKNOWN), Acknowledged(1, 12, 20, 500, UNKNOWN)]}


def test_only_some_groups() -> None:
    history = CommitHistory({2})
    for record in (commit(1, 1, 1), commit(2, 1, 1), commit(1, 2, 2), commit(2, 2, 2)):
        history.apply_record(record)
    assert [fact.group for fact in history.commits[PLACE]] == [2]
