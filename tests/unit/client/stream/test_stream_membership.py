"""Membership in the SDK: commits only go forward, letting go is repeated until it is heard, being put out is told."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quiver.client._sync.connection.connection import Reply
from quiver.client._sync.stream.membership import Membership
from quiver.client.connection.retry_log import RetryLog
from quiver.client.read.partition_source import PartitionSource
from quiver.client.stream.assignment import Assignment
from quiver.client.stream.options import stream_config
from quiver.model.errors import ConnectionLost, InvalidRequest, MemberFenced, QuiverError
from quiver.protocol.group_messages import (
    AssignedPart,
    CommitOffsets,
    GroupHeartbeat,
    JoinGroup,
    LeaveGroup,
    MemberAssignment,
)
from quiver.protocol.messages import Done, Message
from quiver.system.clock import SystemClock

SECONDS = 10.0


def assignment(version: int, *partitions: int, revoke: tuple[int, ...] = ()) -> MemberAssignment:
    parts = [AssignedPart(1, "orders", number, 0) for number in partitions]
    return MemberAssignment("m-1", version, version, "complete", parts, [(1, number) for number in revoke])


class FakeConnection:
    """Answers at once, but for heartbeats that wait: those get what a test puts into `news`."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.log = RetryLog(self.clock)
        self.timeout = SECONDS
        self.is_closed = False
        self.news: queue.Queue[MemberAssignment | QuiverError] = queue.Queue()
        self.commits: list[dict[int, int]] = []
        self.released: list[list[tuple[int, int]]] = []
        self.left = False
        self.refuse_commit: QuiverError | None = None
        self.refuse_release: QuiverError | None = None
        self.after_release = assignment(1)
        self.heard = threading.Event()

    def call(self, request: Message, *, repeatable: bool = True, timeout: float | None = None) -> Reply:
        return Reply(self._answer(request), memoryview(b""))  # type: ignore[arg-type]

    def _answer(self, request: Message) -> Any:
        match request:
            case JoinGroup():
                return assignment(1, 0, 1)
            case CommitOffsets(_, _, parts):
                self.commits.append({part.partition: part.offset for part in parts})
                return self._refused("refuse_commit") or Done()
            case GroupHeartbeat(_, _, _, [], _, _):
                found = self.news.get(timeout=SECONDS)
                if isinstance(found, QuiverError):
                    raise found
                return found
            case GroupHeartbeat(_, _, _, revoked, _, _):
                self.released.append(revoked)
                self._refused("refuse_release")
                self.heard.set()
                return self.after_release
            case LeaveGroup():
                self.left = True
                self.news.put(MemberFenced(member="m-1"))
                return Done()
        raise AssertionError(request)

    def _refused(self, which: str) -> None:
        error = getattr(self, which)
        setattr(self, which, None)
        if error is not None:
            raise error


class FakeFetcher:
    def __init__(self) -> None:
        self.changes: queue.Queue[int] = queue.Queue()

    def wake(self) -> None:
        self.changes.put(1)


class Member:
    def __init__(self, **words: Any) -> None:
        self.broker = FakeConnection()
        self.assignment = Assignment()
        self.fetcher = FakeFetcher()
        options = stream_config("orders", "g", now_ms=0, **words)
        self.membership = Membership(self.broker, options, self.assignment, self.fetcher)  # type: ignore[arg-type]
        self.membership.join()
        self.sources = self.assignment.take_added()

    def until(self, check: Callable[[], bool]) -> None:
        while not check():
            self.fetcher.changes.get(timeout=SECONDS)


@pytest.fixture
def start() -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def start_one(**words: Any) -> Member:
        members.append(Member(**words))
        return members[-1]

    yield start_one
    for member in members:
        member.membership.leave()


def read_to(source: PartitionSource, position: int) -> None:
    source.position = position


def test_only_what_moved_is_committed_and_only_forward(start) -> None:
    member = start(auto_commit=False)
    first, second = member.sources
    member.membership.commit()
    read_to(first, 5)
    member.membership.commit()
    member.membership.commit()
    read_to(second, 3)
    member.membership.commit()
    assert member.broker.commits == [{0: 5}, {1: 3}]


def test_a_commit_by_message_counts_as_processed_and_never_goes_back(start) -> None:
    member = start(auto_commit=False)
    source = member.sources[0]
    member.membership.commit_offset(source, 8)
    member.membership.commit_offset(source, 4)
    member.membership.commit()
    assert member.broker.commits == [{0: 8}]
    assert source.position == 8
    member.assignment.seek(source, 2)
    member.membership.commit()
    assert member.broker.commits == [{0: 8}, {0: 2}]


def test_a_commit_that_failed_is_sent_again(start) -> None:
    member = start(auto_commit=False)
    read_to(member.sources[0], 5)
    member.broker.refuse_commit = ConnectionLost(address="a", problem="p")
    with pytest.raises(ConnectionLost):
        member.membership.commit()
    member.membership.commit()
    assert member.broker.commits == [{0: 5}, {0: 5}]


def test_what_is_not_held_cannot_be_committed(start) -> None:
    member = start(auto_commit=False)
    with pytest.raises(MemberFenced, match="orders-7"):
        member.membership.commit_offset(PartitionSource(1, "orders", 7, 0), 1)


@pytest.mark.parametrize("auto_commit", ["1h", False])
def test_the_heart_lets_go_after_a_commit_if_that_is_done_here(start, auto_commit) -> None:
    member = start(auto_commit=auto_commit)
    read_to(member.sources[1], 4)
    member.broker.after_release = assignment(3, 0)
    member.broker.news.put(assignment(2, 0, revoke=(1,)))
    member.until(lambda: member.membership.generation == 3)
    assert member.broker.released == [[(1, 1)]]
    assert member.broker.commits == ([{1: 4}] if auto_commit else [])
    assert member.assignment.committable() == [member.sources[0]]


def test_letting_go_is_repeated_until_it_is_heard(start) -> None:
    member = start()
    member.broker.refuse_release = ConnectionLost(address="a", problem="p")
    member.broker.after_release = assignment(3, 0)
    member.broker.news.put(assignment(2, 0, revoke=(1,)))
    member.until(lambda: member.membership.generation == 3)
    assert member.broker.released == [[(1, 1)], [(1, 1)]]


def test_a_partition_that_was_never_heard_of_is_let_go_of(start) -> None:
    member = start()
    member.broker.after_release = assignment(3, 0, 1)
    member.broker.news.put(assignment(2, 0, 1, revoke=(5,)))
    member.until(lambda: member.membership.generation == 3)
    assert member.broker.released == [[(1, 5)]]


def test_with_a_callback_the_reader_lets_go_and_the_heart_repeats(start) -> None:
    member = start(on_revoke=lambda partitions: None)
    member.broker.news.put(assignment(2, 0, revoke=(1,)))
    member.until(lambda: member.membership.generation == 2)
    assert member.broker.released == []
    member.broker.refuse_release = ConnectionLost(address="a", problem="p")
    with pytest.raises(ConnectionLost):
        member.membership.release(member.assignment.stop_revoked())
    member.broker.after_release = assignment(3, 0)
    member.broker.news.put(assignment(2, 0, revoke=(1,)))
    assert member.broker.heard.wait(SECONDS)
    assert member.broker.released == [[(1, 1)], [(1, 1)]]


def test_a_refused_commit_while_letting_go_is_no_reason_to_stay(start) -> None:
    member = start()
    read_to(member.sources[1], 4)
    member.broker.refuse_commit = MemberFenced(member="m-1")
    member.broker.after_release = assignment(3, 0)
    member.broker.news.put(assignment(2, 0, revoke=(1,)))
    member.until(lambda: member.membership.generation == 3)
    assert member.membership.error is None


def test_a_member_that_is_out_says_so(start) -> None:
    member = start()
    member.broker.news.put(MemberFenced(member="m-1"))
    member.until(lambda: member.membership.error is not None)
    with pytest.raises(MemberFenced):
        member.membership.commit_offset(member.sources[0], 1)


def test_a_broker_that_is_away_is_tried_again(start) -> None:
    member = start()
    member.broker.news.put(ConnectionLost(address="a", problem="p"))
    member.broker.news.put(assignment(2, 0, 1))
    member.until(lambda: member.membership.generation == 2)
    assert member.membership.error is None


def test_leaving_is_said_unless_the_instance_is_to_come_back(start) -> None:
    gone, stays = start(), start(instance_id="box")
    gone.membership.leave()
    stays.membership.leave()
    assert (gone.broker.left, stays.broker.left) == (True, False)
    stays.broker.news.put(MemberFenced(member="m-1"))


def test_options_are_checked() -> None:
    with pytest.raises(InvalidRequest, match="topics, or a pattern"):
        stream_config([], "g", now_ms=0)
    with pytest.raises(InvalidRequest, match="assignor"):
        stream_config("orders", "g", now_ms=0, assignor="best")
    assert stream_config("orders", "g", now_ms=0, auto_commit=True).auto_commit_seconds == 5
    assert stream_config("orders", "g", now_ms=0, auto_commit=False).auto_commit_seconds is None
