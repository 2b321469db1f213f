"""Shares follow the weights, no level waits for ever, and an empty one saves nothing up."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quiver.structures.deficit_round_robin import DeficitRoundRobin

FIVE = (50, 25, 15, 7, 3)
NEVER = 10**9

weights_lists = st.lists(st.integers(1, 60), min_size=2, max_size=6)
limits = st.none() | st.integers(1, 200)


def serve(
    choice: DeficitRoundRobin, level_count: int, total: int, *, limit: int | None = None, step_ms: int = 0
) -> list[tuple[int, int]]:
    """Serve until `total` are served while every level always has plenty."""
    served: list[tuple[int, int]] = []
    now_ms = left = 0
    while left < total:
        picked = choice.next([10**6] * level_count, now_ms, limit)
        assert picked is not None
        served.append(picked)
        left += picked[1]
        now_ms += step_ms
    return served


def totals(served: list[tuple[int, int]]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for level, count in served:
        counts[level] += count
    return counts


@given(weights_lists, limits, st.integers(1, 8))
def test_shares_are_the_weights_when_all_are_ready(weights: list[int], limit: int | None, quantum: int) -> None:
    rounds = 20
    total = sum(weights) * quantum * rounds
    choice = DeficitRoundRobin(weights, starvation_ms=NEVER, quantum=quantum)
    counts = totals(serve(choice, len(weights), total, limit=limit))
    for level, weight in enumerate(weights):
        assert counts[level] == pytest.approx(weight * quantum * rounds, abs=weight * quantum)


@given(weights_lists, st.lists(st.lists(st.integers(0, 90), min_size=6, max_size=6), max_size=60), limits)
def test_every_choice_is_allowed_and_every_arrival_is_served(
    weights: list[int], arrivals: list[list[int]], limit: int | None
) -> None:
    choice = DeficitRoundRobin(weights, starvation_ms=500)
    ready = [0] * len(weights)
    arrived, served = Counter[int](), Counter[int]()
    now_ms = 0
    while arrivals or any(ready):
        for level, count in zip(range(len(weights)), arrivals.pop() if arrivals else [], strict=False):
            ready[level] += count
            arrived[level] += count
        picked = choice.next(ready, now_ms, limit)
        assert (picked is None) == (not any(ready))
        if picked is not None:
            level, count = picked
            assert 1 <= count <= ready[level]
            assert limit is None or count <= limit
            ready[level] -= count
            served[level] += count
        now_ms += 7
    assert +served == +arrived


@given(weights_lists, st.lists(st.integers(0, 63), max_size=150), limits, st.integers(1, 100), st.integers(1, 40))
def test_the_longest_wait_is_bounded(
    weights: list[int], masks: list[int], limit: int | None, starvation_ms: int, step_ms: int
) -> None:
    """While any level has waited too long, the next one served is one that has waited longest."""
    choice = DeficitRoundRobin(weights, starvation_ms=starvation_ms)
    since: dict[int, int] = {}
    now_ms = 0
    for mask in masks:
        ready = [9 if mask >> level & 1 else 0 for level in range(len(weights))]
        since = {level: since.get(level, now_ms) for level in range(len(weights)) if ready[level]}
        picked = choice.next(ready, now_ms, limit)
        starving = {level: start for level, start in since.items() if now_ms - start >= starvation_ms}
        if starving:
            assert picked is not None
            assert since[picked[0]] == min(starving.values())
        if picked is not None:
            since[picked[0]] = now_ms
        now_ms += step_ms


def test_a_slow_consumer_still_sees_every_level_in_time() -> None:
    """One a second: a round takes 100 s, and without the guard the last level would wait for 97 of them."""
    choice = DeficitRoundRobin(FIVE, starvation_ms=30_000)
    last = dict.fromkeys(range(5), 0)
    longest = 0
    for second in range(2_000):
        picked = choice.next([1000] * 5, second * 1_000, 1)
        assert picked is not None
        longest = max(longest, second - last[picked[0]])
        last[picked[0]] = second
    assert longest <= 30 + len(FIVE)


def test_what_the_guard_serves_is_charged_to_the_level() -> None:
    """A round takes a little longer than the guard waits, so it acts now and then; shares stay near the weights."""
    choice = DeficitRoundRobin(FIVE, starvation_ms=90)
    counts = totals(serve(choice, 5, 100_000, limit=1, step_ms=1))
    for level, weight in enumerate(FIVE):
        assert counts[level] / 100_000 == pytest.approx(weight / 100, abs=0.01)


def test_an_empty_level_loses_its_deficit() -> None:
    choice = DeficitRoundRobin((10, 10), starvation_ms=NEVER)
    assert choice.next([100, 100], 0, 4) == (0, 4)
    for _ in range(50):
        assert choice.next([0, 100], 0, 10) == (1, 10)
    turns = [choice.next([100, 100], 0) for _ in range(4)]
    assert turns == [(0, 10), (1, 10), (0, 10), (1, 10)]


def test_a_level_alone_gets_all_it_can_use_and_owes_nothing() -> None:
    choice = DeficitRoundRobin(FIVE, starvation_ms=NEVER)
    assert choice.next([0, 0, 0, 0, 5_000], 0) == (4, 5_000)
    assert choice.next([0, 0, 0, 0, 5_000], 0, 700) == (4, 700)
    assert totals(serve(choice, 5, 1_000)) == Counter(dict(enumerate(weight * 10 for weight in FIVE)))


def test_nothing_ready_or_no_room_is_none() -> None:
    choice = DeficitRoundRobin(FIVE, starvation_ms=10)
    assert choice.next([0] * 5, 0) is None
    assert choice.next([1] * 5, 0, 0) is None
    assert choice.next([1] * 5, 10, 1) == (0, 1)


@given(st.integers(0, 60), st.integers(1, 50))
def test_what_is_given_back_is_served_later(given_back: int, limit: int) -> None:
    choice = DeficitRoundRobin((50, 50), starvation_ms=NEVER)
    first = choice.next([100, 100], 0, limit)
    assert first == (0, limit)
    assume(given_back <= limit)
    choice.give_back(0, given_back)
    left = 50 - limit + given_back
    assert choice.next([100, 100], 0) == ((0, left) if left else (1, 50))


def test_a_level_alone_gets_no_credit_for_what_it_gives_back() -> None:
    choice = DeficitRoundRobin((5, 5), starvation_ms=NEVER)
    assert choice.next([100, 0], 0) == (0, 100)
    choice.give_back(0, 100)
    assert choice.next([100, 100], 0) == (1, 5)


def test_a_clock_that_goes_back_starves_nobody() -> None:
    choice = DeficitRoundRobin((1_000, 1), starvation_ms=100)
    assert choice.next([5_000, 5], 10**6, 1) == (0, 1)
    picks = [choice.next([5_000, 5], now_ms, 1) for now_ms in range(0, 150, 10)]
    assert (1, 1) in picks


@pytest.mark.parametrize(
    ("weights", "starvation_ms", "quantum"), [((), 1, 1), ((1, 0), 1, 1), ((1,), 0, 1), ((1,), 1, 0)]
)
def test_bad_settings_are_refused(weights: tuple[int, ...], starvation_ms: int, quantum: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        DeficitRoundRobin(weights, starvation_ms=starvation_ms, quantum=quantum)


def test_a_wrong_number_of_levels_is_refused() -> None:
    with pytest.raises(ValueError, match="2 levels given for 5"):
        DeficitRoundRobin(FIVE, starvation_ms=1).next([1, 1], 0)
