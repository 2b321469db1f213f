"""The partitions of a member, and what its reader is processing."""

import threading

import pytest

from quiver.client.message import Message
from quiver.client.read.partition_source import PartitionSource
from quiver.client.stream.assignment import Assignment, named
from quiver.client.stream.current_batch import CurrentBatch
from quiver.protocol.group_messages import AssignedPart, MemberAssignment


def answer(version: int, assigned: dict[int, int], revoke: tuple[int, ...] = ()) -> MemberAssignment:
    """Partitions of one topic with the offsets to begin at, and those to let go of."""
    parts = [AssignedPart(1, "orders", number, offset) for number, offset in assigned.items()]
    return MemberAssignment("m", 1, version, "complete", parts, [(1, number) for number in revoke])


def messages(first: int, count: int) -> list[Message]:
    return [Message(None, offset, None, b"") for offset in range(first, first + count)]  # type: ignore[arg-type]


def batch_of(source: PartitionSource, count: int = 5, first: int | None = None) -> CurrentBatch:
    begin = source.position if first is None else first
    return CurrentBatch(source, source.cursor, messages(begin, count), begin + count)


def holding(*partitions: int) -> tuple[Assignment, list[PartitionSource]]:
    assignment = Assignment()
    assignment.apply(answer(1, dict.fromkeys(partitions, 0)))
    return assignment, assignment.take_added()


def numbers(sources: list[PartitionSource]) -> list[int]:
    return [partition for _, partition in named(sources)]


class TestHand:
    def test_the_position_follows_what_goes_out(self) -> None:
        current = batch_of(PartitionSource(1, "orders", 0, 10))
        assert current.position(done=False) is None
        next(current.left)
        assert (current.position(done=False), current.position(done=True)) == (10, 11)
        list(current.left)
        assert (current.position(done=False), current.position(done=True)) == (14, 15)

    def test_the_end_may_lie_behind_the_last_message(self) -> None:
        source = PartitionSource(1, "orders", 0, 0)
        current = CurrentBatch(source, source.cursor, messages(0, 3), 7)
        list(current.left)
        assert current.position(done=True) == 7

    def test_what_is_taken_back_can_go_out_again(self) -> None:
        current = batch_of(PartitionSource(1, "orders", 0, 0))
        next(current.left)
        current.take_back()
        current.take_back()
        assert list(current.left) == []
        assert current.position(done=True) == 1
        rest = current.rest()
        assert rest is not None
        assert [message.offset for message in rest.left] == [1, 2, 3, 4]
        assert rest.position(done=True) == 5
        assert rest.rest() is None

    def test_a_batch_is_one_thing(self) -> None:
        source = PartitionSource(1, "orders", 0, 3)
        current = CurrentBatch(source, source.cursor, [], 9)
        assert (current.position(done=False), current.position(done=True)) == (None, 9)

    def test_every_message_goes_to_one_side_when_threads_race(self) -> None:
        for _ in range(20):
            current = batch_of(PartitionSource(1, "orders", 0, 0), 20_000)
            got: list[Message] = []
            reader = threading.Thread(target=lambda current=current, got=got: got.extend(m for m in current.left))
            reader.start()
            current.take_back()
            reader.join()
            rest = current.rest()
            offsets = [m.offset for m in (*got, *(rest.left if rest else ()))]
            assert offsets == list(range(20_000))


class TestAssignment:
    def test_partitions_arrive_once_at_the_offset_the_broker_says(self) -> None:
        assignment = Assignment()
        assignment.apply(answer(1, {0: 5, 1: 7}))
        assert [(s.partition, s.position, s.committed) for s in assignment.take_added()] == [(0, 5, 5), (1, 7, 7)]
        assignment.apply(answer(2, {0: 9, 1: 7}))
        assert assignment.take_added() == []
        assert numbers(assignment.reading()) == [0, 1]

    def test_an_older_answer_is_ignored(self) -> None:
        assignment, _ = holding(0)
        assignment.apply(answer(0, {1: 0}))
        assert numbers(assignment.reading()) == [0]

    def test_a_partition_that_vanishes_is_lost(self) -> None:
        assignment, (gone, _) = holding(0, 1)
        assignment.apply(answer(2, {1: 0}))
        assert assignment.take_lost() == [gone]
        assert assignment.take_lost() == []
        assert gone.is_gone

    def test_one_that_vanishes_before_it_was_begun_never_arrives(self) -> None:
        assignment = Assignment()
        assignment.apply(answer(1, {0: 0}))
        assignment.apply(answer(2, {}))
        assert assignment.take_added() == []

    def test_all_is_lost_with_the_membership(self) -> None:
        assignment, _ = holding(0, 1, 2)
        assignment.apply(answer(2, {0: 0, 2: 0}, revoke=(1,)))
        assignment.stop_revoked()
        assert numbers(assignment.lose_all()) == [0, 1, 2]
        assert assignment.committable() == []
        assert not assignment.is_revoking


class TestLettingGo:
    def test_revoked_partitions_stop_at_once_except_the_current_one(self) -> None:
        assignment, (busy, free) = holding(0, 1)
        assert assignment.begin(batch_of(busy))
        assignment.apply(answer(2, {}, revoke=(0, 1)))
        assert assignment.stop_revoked() == [free]
        assert assignment.is_revoking
        assert assignment.stop_revoked() == []
        assignment.finish()
        assert assignment.stop_revoked() == [busy]

    def test_nothing_of_it_is_picked_up_any_more(self) -> None:
        assignment, (source,) = holding(0)
        assignment.apply(answer(2, {}, revoke=(0,)))
        assert not assignment.begin(batch_of(source))
        assignment.stop_revoked()
        assert not assignment.begin(batch_of(source))

    def test_it_can_be_committed_until_the_broker_has_heard(self) -> None:
        assignment, (source,) = holding(0)
        assignment.apply(answer(2, {}, revoke=(0,)))
        gone = assignment.stop_revoked()
        assert (assignment.reading(), assignment.committable()) == ([], [source])
        assert assignment.to_release() == ([], [])
        assignment.mark_for_release(gone)
        assert assignment.to_release() == ([(1, 0)], [source])
        assignment.released([(1, 0)])
        assert assignment.committable() == []
        assert assignment.to_release() == ([], [])
        assert not assignment.is_revoking

    def test_what_the_broker_was_not_told_is_told_again(self) -> None:
        assignment, _ = holding(0)
        assignment.apply(answer(2, {}, revoke=(0,)))
        assignment.mark_for_release(assignment.stop_revoked())
        assignment.apply(answer(2, {}, revoke=(0,)))
        assert assignment.stop_revoked() == []
        assert assignment.to_release()[0] == [(1, 0)]

    def test_one_that_comes_back_meanwhile_arrives_again_at_the_offset_after_the_commit(self) -> None:
        assignment, (old,) = holding(0)
        assignment.apply(answer(2, {}, revoke=(0,)))
        assignment.mark_for_release(assignment.stop_revoked())
        assignment.apply(answer(3, {0: 0}))
        assert assignment.take_added() == []
        assignment.released([(1, 0)])
        assignment.apply(answer(3, {0: 40}))
        (new,) = assignment.take_added()
        assert new is not old
        assert new.position == 40

    def test_one_that_must_go_before_it_was_heard_of_is_released_all_the_same(self) -> None:
        assignment = Assignment()
        assignment.apply(answer(1, {}, revoke=(0,)))
        assert assignment.to_release() == ([(1, 0)], [])
        assignment.apply(answer(2, {0: 0}))
        assert assignment.to_release() == ([], [])


class TestReading:
    def test_progress_is_noted_on_the_way_and_at_the_end(self) -> None:
        assignment, (source,) = holding(0)
        current = batch_of(source)
        assert assignment.begin(current)
        assignment.note_progress()
        assert source.position == 0
        next(current.left), next(current.left)
        assignment.note_progress()
        assert source.position == 1
        assignment.note_progress(done=True)
        assert source.position == 2
        assignment.note_progress()
        assert source.position == 2
        list(current.left)
        assert assignment.finish() is None
        assert source.position == 5
        assert assignment.finish() is None

    @pytest.mark.parametrize(("done", "position"), [(True, 2), (False, 1)])
    def test_a_message_that_failed_does_not_count(self, done: bool, position: int) -> None:
        assignment, (source,) = holding(0)
        current = batch_of(source)
        assignment.begin(current)
        next(current.left), next(current.left)
        assignment.finish(done=done)
        assert source.position == position

    def test_an_interruption_gives_back_the_rest(self) -> None:
        assignment, (source,) = holding(0)
        assignment.interrupt()
        current = batch_of(source)
        assignment.begin(current)
        next(current.left)
        assignment.interrupt()
        assert list(current.left) == []
        rest = assignment.finish()
        assert rest is not None
        assert source.position == 1
        assert assignment.begin(rest)
        assert [m.offset for m in rest.left] == [1, 2, 3, 4]

    def test_a_pause_takes_back_and_what_was_fetched_is_fetched_again(self) -> None:
        assignment, (source, other) = holding(0, 1)
        current, cursor = batch_of(source), source.cursor
        cursor.offset = 5
        assignment.begin(current)
        next(current.left)
        assignment.pause(other)
        assert next(current.left).offset == 1
        assignment.pause(source)
        assert list(current.left) == []
        rest = assignment.finish()
        assert rest is not None
        assert not assignment.begin(rest)
        assert source.cursor is not cursor
        assert source.cursor.offset == source.position == 2
        source.is_paused = False
        assert not assignment.begin(rest)
        assert assignment.begin(batch_of(source))

    def test_seek_makes_everything_fetched_void_and_is_to_be_committed(self) -> None:
        assignment, (source,) = holding(0)
        source.is_fetching = True
        source.position = source.committed = 3
        current = batch_of(source)
        assignment.begin(current)
        next(current.left)
        assignment.seek(source, 1)
        assert list(current.left) == []
        rest = assignment.finish()
        assert rest is not None
        assert not assignment.begin(rest)
        assert (source.position, source.cursor.offset, source.is_fetching) == (1, 1, False)
        assert source.committed < source.position
