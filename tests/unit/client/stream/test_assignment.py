"""What a member holds, and what its reader has in its hands."""

import threading

import pytest

from quiver.client.message import Message
from quiver.client.read.partition_source import PartitionSource
from quiver.client.stream.assignment import Holdings, named
from quiver.client.stream.current_batch import Hand
from quiver.protocol.group_messages import AssignedPart, MemberAssignment


def answer(version: int, assigned: dict[int, int], revoke: tuple[int, ...] = ()) -> MemberAssignment:
    """Partitions of one topic with the offsets to begin at, and those to let go of."""
    parts = [AssignedPart(1, "orders", number, offset) for number, offset in assigned.items()]
    return MemberAssignment("m", 1, version, "complete", parts, [(1, number) for number in revoke])


def messages(first: int, count: int) -> list[Message]:
    return [Message(None, offset, None, b"") for offset in range(first, first + count)]  # type: ignore[arg-type]


def hand_of(source: PartitionSource, count: int = 5, first: int | None = None) -> Hand:
    begin = source.position if first is None else first
    return Hand(source, source.cursor, messages(begin, count), begin + count)


def holding(*partitions: int) -> tuple[Holdings, list[PartitionSource]]:
    holdings = Holdings()
    holdings.adopt(answer(1, dict.fromkeys(partitions, 0)))
    return holdings, holdings.take_arrived()


def numbers(sources: list[PartitionSource]) -> list[int]:
    return [partition for _, partition in named(sources)]


class TestHand:
    def test_the_position_follows_what_goes_out(self) -> None:
        hand = hand_of(PartitionSource(1, "orders", 0, 10))
        assert hand.position(done=False) is None
        next(hand.left)
        assert (hand.position(done=False), hand.position(done=True)) == (10, 11)
        list(hand.left)
        assert (hand.position(done=False), hand.position(done=True)) == (14, 15)

    def test_the_end_may_lie_behind_the_last_message(self) -> None:
        source = PartitionSource(1, "orders", 0, 0)
        hand = Hand(source, source.cursor, messages(0, 3), 7)
        list(hand.left)
        assert hand.position(done=True) == 7

    def test_what_is_taken_back_can_go_out_again(self) -> None:
        hand = hand_of(PartitionSource(1, "orders", 0, 0))
        next(hand.left)
        hand.take_back()
        hand.take_back()
        assert list(hand.left) == []
        assert hand.position(done=True) == 1
        rest = hand.rest()
        assert rest is not None
        assert [message.offset for message in rest.left] == [1, 2, 3, 4]
        assert rest.position(done=True) == 5
        assert rest.rest() is None

    def test_a_batch_is_one_thing(self) -> None:
        source = PartitionSource(1, "orders", 0, 3)
        hand = Hand(source, source.cursor, [], 9)
        assert (hand.position(done=False), hand.position(done=True)) == (None, 9)

    def test_every_message_goes_to_one_side_when_threads_race(self) -> None:
        for _ in range(20):
            hand = hand_of(PartitionSource(1, "orders", 0, 0), 20_000)
            got: list[Message] = []
            reader = threading.Thread(target=lambda hand=hand, got=got: got.extend(m for m in hand.left))
            reader.start()
            hand.take_back()
            reader.join()
            rest = hand.rest()
            offsets = [m.offset for m in (*got, *(rest.left if rest else ()))]
            assert offsets == list(range(20_000))


class TestAssignment:
    def test_partitions_arrive_once_at_the_offset_the_broker_says(self) -> None:
        holdings = Holdings()
        holdings.adopt(answer(1, {0: 5, 1: 7}))
        assert [(s.partition, s.position, s.committed) for s in holdings.take_arrived()] == [(0, 5, 5), (1, 7, 7)]
        holdings.adopt(answer(2, {0: 9, 1: 7}))
        assert holdings.take_arrived() == []
        assert numbers(holdings.current()) == [0, 1]

    def test_an_older_answer_is_ignored(self) -> None:
        holdings, _ = holding(0)
        holdings.adopt(answer(0, {1: 0}))
        assert numbers(holdings.current()) == [0]

    def test_a_partition_that_vanishes_is_lost(self) -> None:
        holdings, (gone, _) = holding(0, 1)
        holdings.adopt(answer(2, {1: 0}))
        assert holdings.take_lost() == [gone]
        assert holdings.take_lost() == []
        assert gone.is_gone

    def test_one_that_vanishes_before_it_was_begun_never_arrives(self) -> None:
        holdings = Holdings()
        holdings.adopt(answer(1, {0: 0}))
        holdings.adopt(answer(2, {}))
        assert holdings.take_arrived() == []

    def test_all_is_lost_with_the_membership(self) -> None:
        holdings, _ = holding(0, 1, 2)
        holdings.adopt(answer(2, {0: 0, 2: 0}, revoke=(1,)))
        holdings.let_go()
        assert numbers(holdings.lose_all()) == [0, 1, 2]
        assert holdings.held() == []
        assert not holdings.is_busy


class TestLettingGo:
    def test_what_must_go_goes_at_once_but_for_what_is_in_hand(self) -> None:
        holdings, (busy, free) = holding(0, 1)
        assert holdings.pick_up(hand_of(busy))
        holdings.adopt(answer(2, {}, revoke=(0, 1)))
        assert holdings.let_go() == [free]
        assert holdings.is_busy
        assert holdings.let_go() == []
        holdings.put_down()
        assert holdings.let_go() == [busy]

    def test_nothing_of_it_is_picked_up_any_more(self) -> None:
        holdings, (source,) = holding(0)
        holdings.adopt(answer(2, {}, revoke=(0,)))
        assert not holdings.pick_up(hand_of(source))
        holdings.let_go()
        assert not holdings.pick_up(hand_of(source))

    def test_it_can_be_committed_until_the_broker_has_heard(self) -> None:
        holdings, (source,) = holding(0)
        holdings.adopt(answer(2, {}, revoke=(0,)))
        gone = holdings.let_go()
        assert (holdings.current(), holdings.held()) == ([], [source])
        assert holdings.to_release() == ([], [])
        holdings.give_up(gone)
        assert holdings.to_release() == ([(1, 0)], [source])
        holdings.released([(1, 0)])
        assert holdings.held() == []
        assert holdings.to_release() == ([], [])
        assert not holdings.is_busy

    def test_what_the_broker_was_not_told_is_told_again(self) -> None:
        holdings, _ = holding(0)
        holdings.adopt(answer(2, {}, revoke=(0,)))
        holdings.give_up(holdings.let_go())
        holdings.adopt(answer(2, {}, revoke=(0,)))
        assert holdings.let_go() == []
        assert holdings.to_release()[0] == [(1, 0)]

    def test_one_that_comes_back_meanwhile_arrives_anew_at_the_offset_after_the_commit(self) -> None:
        holdings, (old,) = holding(0)
        holdings.adopt(answer(2, {}, revoke=(0,)))
        holdings.give_up(holdings.let_go())
        holdings.adopt(answer(3, {0: 0}))
        assert holdings.take_arrived() == []
        holdings.released([(1, 0)])
        holdings.adopt(answer(3, {0: 40}))
        (new,) = holdings.take_arrived()
        assert new is not old
        assert new.position == 40

    def test_one_that_must_go_before_it_was_heard_of_is_released_all_the_same(self) -> None:
        holdings = Holdings()
        holdings.adopt(answer(1, {}, revoke=(0,)))
        assert holdings.to_release() == ([(1, 0)], [])
        holdings.adopt(answer(2, {0: 0}))
        assert holdings.to_release() == ([], [])


class TestReading:
    def test_progress_is_noted_on_the_way_and_at_the_end(self) -> None:
        holdings, (source,) = holding(0)
        hand = hand_of(source)
        assert holdings.pick_up(hand)
        holdings.note_progress()
        assert source.position == 0
        next(hand.left), next(hand.left)
        holdings.note_progress()
        assert source.position == 1
        holdings.note_progress(done=True)
        assert source.position == 2
        holdings.note_progress()
        assert source.position == 2
        list(hand.left)
        assert holdings.put_down() is None
        assert source.position == 5
        assert holdings.put_down() is None

    @pytest.mark.parametrize(("done", "position"), [(True, 2), (False, 1)])
    def test_a_message_that_failed_does_not_count(self, done: bool, position: int) -> None:
        holdings, (source,) = holding(0)
        hand = hand_of(source)
        holdings.pick_up(hand)
        next(hand.left), next(hand.left)
        holdings.put_down(done=done)
        assert source.position == position

    def test_an_interruption_gives_back_the_rest(self) -> None:
        holdings, (source,) = holding(0)
        holdings.interrupt()
        hand = hand_of(source)
        holdings.pick_up(hand)
        next(hand.left)
        holdings.interrupt()
        assert list(hand.left) == []
        rest = holdings.put_down()
        assert rest is not None
        assert source.position == 1
        assert holdings.pick_up(rest)
        assert [m.offset for m in rest.left] == [1, 2, 3, 4]

    def test_a_pause_takes_back_and_what_was_fetched_is_fetched_again(self) -> None:
        holdings, (source, other) = holding(0, 1)
        hand, cursor = hand_of(source), source.cursor
        cursor.offset = 5
        holdings.pick_up(hand)
        next(hand.left)
        holdings.pause(other)
        assert next(hand.left).offset == 1
        holdings.pause(source)
        assert list(hand.left) == []
        rest = holdings.put_down()
        assert rest is not None
        assert not holdings.pick_up(rest)
        assert source.cursor is not cursor
        assert source.cursor.offset == source.position == 2
        source.is_paused = False
        assert not holdings.pick_up(rest)
        assert holdings.pick_up(hand_of(source))

    def test_seek_makes_everything_fetched_void_and_is_to_be_committed(self) -> None:
        holdings, (source,) = holding(0)
        source.is_fetching = True
        source.position = source.committed = 3
        hand = hand_of(source)
        holdings.pick_up(hand)
        next(hand.left)
        holdings.seek(source, 1)
        assert list(hand.left) == []
        rest = holdings.put_down()
        assert rest is not None
        assert not holdings.pick_up(rest)
        assert (source.position, source.cursor.offset, source.is_fetching) == (1, 1, False)
        assert source.committed < source.position
