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
        while holding.held_bytes < MIB and holding.admits(64 * KIB):
            holding.take(64 * KIB)
    assert not any(holding.admits(64 * KIB) for holding in large[:-1]), "the last one goes beyond"
    small = [budget.open() for _ in range(10)]
    for holding in small:
        holding.take(4 * KIB)


def test_one_at_a_time_goes_beyond_so_that_requests_that_are_half_there_can_end() -> None:
    budget = MemoryBudget(MIB)
    first, second, third = (budget.open() for _ in range(3))
    first.take(500 * KIB)
    second.take(500 * KIB)
    second.take(5 * MIB)
    third.take(200 * KIB)
    assert not third.admits(500 * KIB)
    second.close()
    assert third.admits(500 * KIB)


def test_a_request_larger_than_the_budget_is_taken_alone() -> None:
    budget = MemoryBudget(MIB)
    holding = budget.open()
    holding.take(30 * MIB)
    with pytest.raises(Overloaded):
        budget.open().take(2 * MIB)
    budget.open().take(SMALL_BYTES)
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
    assert woken == [0, 2, 3], "one goes beyond, and the other has room"


def test_looking_takes_nothing() -> None:
    """A client that is idle must not keep others from going beyond."""
    budget = MemoryBudget(MIB)
    idle, busy = budget.open(), budget.open()
    for _ in range(16):
        budget.open().take(SMALL_BYTES)
    assert idle.admits()
    assert busy.admits()


def test_somebody_can_always_go_on_whatever_they_do() -> None:
    """Requests of random sizes that arrive in pieces all end, and what is held stays bounded."""
    rng = random.Random(11)
    budget, largest = MemoryBudget(4 * MIB), 3 * MIB
    waiting: set[Holding] = set()
    left = {budget.open(): rng.randrange(1, largest) for _ in range(200)}
    for _ in range(200_000):
        if not left:
            break
        holding = rng.choice(list(left)[:40])
        if holding in waiting:
            continue
        if not holding.admits():
            waiting.add(holding)
            holding.when_admitted(lambda holding=holding: waiting.discard(holding))  # type: ignore[misc]
            continue
        piece = min(left[holding], rng.randrange(1, 256 * KIB))
        holding.resize(holding.held_bytes + piece)
        assert budget.held_bytes <= 4 * MIB + largest + 256 * KIB + SMALL_BYTES
        left[holding] -= piece
        if not left[holding] or rng.random() < 0.001:
            del left[holding]
            holding.close()
    assert not left
    assert budget.held_bytes == 0
