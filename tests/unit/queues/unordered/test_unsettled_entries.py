"""The sorted list of entries against a plain one, and the moves that dead messages leave by."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.outbox.outbox import Outbox, Target
from quiver.queues.journal.moves import MOVE_MESSAGES, begin_moves, moves_of
from quiver.queues.state.port import Dead
from quiver.queues.state.unordered import in_flight
from quiver.queues.state.unordered.in_flight import LEASED, InFlightRun, Unsettled


def entry(start: int, end: int) -> InFlightRun:
    return InFlightRun(start, end, 2, 1, 0, LEASED, 0, 1, "ada")


@pytest.mark.parametrize("block", [4, 5, 512])
@given(seed=st.integers(0, 2**32))
def test_the_list_is_what_a_plain_one_is(block: int, seed: int) -> None:
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_flight, "_BLOCK", block)
        found, plain = Unsettled(), list[InFlightRun]()
        for _ in range(120):
            start = chance.randrange(200)
            end = start + chance.randint(1, 6)
            over = [each for each in plain if each.start < end and start < each.end]
            assert found.overlapping(start, end) == over
            what = chance.random()
            if not over and what < 0.8:
                new = entry(start, end)
                found.add(new)
                plain = sorted([*plain, new], key=lambda each: each.start)
            elif over and what < 0.7:
                found.remove(over[0])
                plain.remove(over[0])
            elif over and over[0].end - over[0].start > 1:
                found.begin_at(over[0], over[0].start + 1)
            assert list(found) == plain
            assert found.lowest == (plain[0].start if plain else None)
            if plain:
                one = chance.choice(plain)
                assert found.at(one.start) is one
            following = found.following(start)
            behind = [each for each in plain if each.start >= start]
            assert following == behind[: len(following)]
            assert bool(following) == bool(behind)


def test_the_dead_leave_in_moves_of_one_level_and_bounded_size() -> None:
    dead = [
        Dead(0, 10, 2, 3, 5, "rejected", "a"),
        Dead(20, 2_520, 1, 3, 5, "max_attempts", "b"),
        Dead(3_000, 3_001, 2, 1, 5, "expired", ""),
    ]
    outbox = Outbox()
    events = begin_moves(7, dead, outbox, 4)
    moves = moves_of(events)
    assert list(outbox.open.values()) == moves
    assert {move.target for move in moves} == {Target(0, 4)}
    assert [move.count for move in moves] == [1_000, 1_000, 500, 11]
    assert [move.sequence for move in moves] == [0, 1_000, 2_000, 2_500]
    for event, move in zip(events, moves, strict=True):
        group, content = move.content
        assert group == 7
        assert msgspec.convert(content, list[Dead]) == event.dead
        assert move.count == sum(each.end - each.start for each in event.dead) <= MOVE_MESSAGES
        assert len({each.level for each in event.dead}) == 1
    assert [(each.start, each.end) for each in events[0].dead] == [(20, 1_020)]
    assert [each.reason for each in events[3].dead] == ["rejected", "expired"]


def test_nobody_died() -> None:
    assert begin_moves(7, [], Outbox(), 0) == []
