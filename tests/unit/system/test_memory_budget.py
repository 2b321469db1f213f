"""The budget of memory: who gets more when it is full, and that somebody always does."""

import random

import pytest

from quiver.model.errors import Overloaded
from quiver.model.limits import KIB, MIB
from quiver.system.memory_budget import SMALL_BYTES, Holding, MemoryBudget


def test_what_is_given_back_can_be_had_again() -> None:
    budget = MemoryBudget(MIB)
    first, second = budget.open(), budget.open()
    first.take(600 * KIB)
    second.take(200 * KIB)
    assert budget.held_bytes == 800 * KIB
    first.resize(100 * KIB)
    assert budget.held_bytes == 300 * KIB
    second.close()
    first.close()
    assert budget.held_bytes == 0


def test_a_share_is_kept_for_those_who_hold_little() -> None:
    budget = MemoryBudget(8 * MIB)
    large = [budget.open() for _ in range(8)]
    for holding in large:
        while holding.held_bytes < 2 * MIB and holding.admits(64 * KIB):
            holding.take(64 * KIB)
    assert [holding.admits(64 * KIB) for holding in large].count(True) == 1, "one goes beyond"
    small = [budget.open() for _ in range(10)]
    for holding in small:
        holding.take(4 * KIB)


def test_one_at_a_time_goes_beyond_so_that_requests_that_are_half_there_can_end() -> None:
    budget = MemoryBudget(MIB)
    first, second, third = (budget.open() for _ in range(3))
    first.take(400 * KIB)
    second.take(400 * KIB)
    third.take(5 * MIB)
    for other in (first, second):
        with pytest.raises(Overloaded):
            other.take(200 * KIB)
    third.end_request()
    first.take(5 * MIB)
    first.resize(5 * MIB)
    with pytest.raises(Overloaded):
        second.take(200 * KIB)
    first.close()
    second.take(200 * KIB)


def test_the_next_waits_until_what_went_beyond_has_shrunk_to_one_request() -> None:
    budget = MemoryBudget(MIB, request_bytes=MIB)
    whole, following = budget.open(), budget.open()
    whole.take(4 * MIB)
    whole.end_request()
    assert not following.admits(100 * KIB)
    woken: list[int] = []
    following.when_admitted(lambda: woken.append(1), 100 * KIB)
    whole.resize(3 * MIB)
    assert woken == []
    whole.resize(MIB)
    assert woken == [1]
    following.take(4 * MIB)


def test_small_requests_go_through_whatever_went_beyond() -> None:
    budget = MemoryBudget(MIB)
    large = [budget.open() for _ in range(3)]
    large[0].take(800 * KIB)
    large[1].take(30 * MIB)
    large[1].end_request()
    large[2].resize(20 * MIB)
    for _ in range(2):
        small = budget.open()
        small.take(SMALL_BYTES)
        with pytest.raises(Overloaded):
            small.take(1)


def test_a_request_larger_than_the_budget_is_taken_alone() -> None:
    budget = MemoryBudget(MIB)
    holding = budget.open()
    holding.take(30 * MIB)
    with pytest.raises(Overloaded):
        budget.open().take(2 * MIB)
    holding.close()
    assert budget.open().admits(30 * MIB)


def test_those_who_wait_go_on_in_their_order_and_one_of_them_always_does() -> None:
    budget = MemoryBudget(MIB)
    beyond = budget.open()
    beyond.take(2 * MIB)
    woken: list[int] = []
    waiting = [budget.open() for _ in range(4)]
    for number, holding in enumerate(waiting):
        holding.resize(600 * KIB)
        holding.when_admitted(lambda number=number: woken.append(number))  # type: ignore[misc]
    waiting[1].close()
    beyond.close()
    assert woken == [0], "the first goes beyond, alone"
    waiting[0].close()
    assert woken == [0, 2]
    waiting[2].close()
    assert woken == [0, 2, 3]


def test_looking_takes_nothing() -> None:
    """A client that is idle must not keep others from going beyond."""
    budget = MemoryBudget(MIB)
    idle, busy = budget.open(), budget.open()
    for _ in range(16):
        budget.open().take(SMALL_BYTES)
    assert idle.admits()
    assert busy.admits()


def test_somebody_can_always_go_on_whatever_they_do() -> None:
    """Requests of random sizes that arrive in pieces are all answered, and what is held stays bounded."""
    rng = random.Random(11)
    largest = 3 * MIB
    budget = MemoryBudget(4 * MIB, request_bytes=largest)
    waiting: set[Holding] = set()
    left = {budget.open(): rng.randrange(1, largest) for _ in range(200)}
    whole: list[Holding] = []
    most = 0
    while left or whole:
        if whole and (rng.random() < 0.1 or waiting.issuperset(list(left)[:40])):
            whole.pop(rng.randrange(len(whole))).close()
            continue
        holding = rng.choice(list(left)[:40])
        if holding in waiting:
            assert whole or not waiting.issuperset(list(left)[:40]), "nobody can go on"
            continue
        room = holding.room()
        if not room:
            waiting.add(holding)
            holding.when_admitted(lambda holding=holding: waiting.discard(holding))  # type: ignore[misc]
            continue
        piece = min(left[holding], rng.randrange(1, 256 * KIB), room)
        holding.arrived(holding.held_bytes + piece)
        most = max(most, budget.held_bytes)
        left[holding] -= piece
        if not left[holding]:
            del left[holding]
            whole.append(holding)
            holding.end_request()
        elif rng.random() < 0.001:
            del left[holding]
            holding.close()
    assert 4 * MIB < most <= 4 * MIB + 2 * largest
    assert budget.held_bytes == 0
