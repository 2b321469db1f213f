"""The timer wheel against a sorted list, and the memory it takes."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.structures import timer_bucket, timer_wheel
from quiver.structures.timer_wheel import TICK_MS, TimerWheel

TEN_YEARS_MS = 3653 * 86_400_000
NOW_MS = 1_790_000_000_000

ids = st.integers(0, 25)
# Few different times, close together around the borders of buckets: most of what can go wrong needs neighbours.
crowded = st.builds(
    lambda bucket_ms, offset_ms: bucket_ms + offset_ms,
    st.sampled_from([0, 2_560, 5_120, 655_360, 657_920, 2 * 655_360]),
    st.integers(-12, 25) | st.sampled_from([100, 300]),
)
anywhere = st.integers(-50, 50) | st.integers(0, 10_000) | st.integers(0, TEN_YEARS_MS)
starts = st.sampled_from([0, NOW_MS, NOW_MS // 655_360 * 655_360 - 30])
limits = st.none() | st.integers(0, 4)


def steps_at(delays: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[str, int | None, int]]]:
    """Calls; schedules come in bursts, or the wheel would be nearly empty all the time."""
    schedule = st.tuples(st.just("schedule"), ids, delays).map(lambda step: [step])
    burst = st.tuples(st.just("schedule"), ids, delays)
    other = st.one_of(
        st.tuples(st.just("cancel"), ids, st.just(0)),
        st.tuples(st.just("advance"), limits, delays),
        st.tuples(st.just("wake"), limits, st.just(0)),
    ).map(lambda step: [step])
    groups = st.lists(schedule | st.lists(burst, min_size=4, max_size=12) | other, max_size=30)
    return groups.map(lambda lists: [step for part in lists for step in part])


steps = steps_at(crowded) | steps_at(anywhere)


class SortedList:
    """What the wheel should do, in the plainest way: (time, number of the call, id) in a list."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, int]] = []
        self.calls = 0

    def schedule(self, id: int, at_ms: int) -> None:
        self.cancel(id)
        self.calls += 1
        self.entries.append((at_ms, self.calls, id))
        self.entries.sort()

    def cancel(self, id: int) -> bool:
        before = len(self.entries)
        self.entries = [entry for entry in self.entries if entry[2] != id]
        return len(self.entries) < before

    def advance(self, now_ms: int, limit: int | None) -> list[int]:
        due = [entry for entry in self.entries if entry[0] <= now_ms][:limit]
        self.entries = self.entries[len(due) :]
        return [id for _, _, id in due]


@contextmanager
def small_bounds() -> Iterator[None]:
    """Few entries are many, so that small tests reach what is done for large buckets."""
    with mock.patch.object(timer_wheel, "_SLICE", 2), mock.patch.object(timer_bucket, "_STALE_MIN", 1):
        yield


def run(actions: list[tuple[str, int | None, int]], start_ms: int) -> None:
    wheel, model, now_ms = TimerWheel(start_ms), SortedList(), start_ms
    for verb, first, delay in actions:
        if verb == "schedule":
            assert first is not None
            wheel.schedule(first, start_ms + delay)
            model.schedule(first, start_ms + delay)
        elif verb == "cancel":
            assert first is not None
            assert wheel.cancel(first) == model.cancel(first)
        else:
            now_ms = max(start_ms + delay if verb == "advance" else wheel.next_due_ms() or 0, now_ms - 20, 0)
            assert wheel.advance(now_ms, first) == model.advance(now_ms, first)
        assert len(wheel) == len(model.entries)
        assert {id for id in range(26) if id in wheel} == {id for _, _, id in model.entries}
        next_ms = wheel.next_due_ms()
        assert (next_ms is None) == (not model.entries)
        assert next_ms is None or next_ms <= model.entries[0][0]
    woken = drain(wheel, now_ms)
    assert [id for _, id in woken] == [id for _, _, id in model.entries]
    assert all(at_ms == max(due_ms, now_ms) for (at_ms, _), (due_ms, _, _) in zip(woken, model.entries, strict=True))


def drain(wheel: TimerWheel, now_ms: int) -> list[tuple[int, int]]:
    """Advance to each time the wheel names until it is empty: (time, id) in the order they come."""
    woken = [(now_ms, id) for id in wheel.advance(now_ms)]
    while (next_ms := wheel.next_due_ms()) is not None:
        assert next_ms > now_ms, "a caller that sleeps until then would spin"
        now_ms = next_ms
        woken += [(now_ms, id) for id in wheel.advance(now_ms)]
    return woken


@given(steps, starts)
@settings(max_examples=300)
def test_as_a_sorted_list(actions: list[tuple[str, int | None, int]], start_ms: int) -> None:
    run(actions, start_ms)


@given(steps, starts)
@settings(max_examples=300)
def test_as_a_sorted_list_when_buckets_are_large(actions: list[tuple[str, int | None, int]], start_ms: int) -> None:
    with small_bounds():
        run(actions, start_ms)


@given(st.lists(crowded | anywhere, max_size=80))
def test_without_cancels_the_next_time_is_exact(times: list[int]) -> None:
    wheel = TimerWheel(NOW_MS)
    for id, delay in enumerate(times):
        wheel.schedule(id, NOW_MS + delay)
        assert wheel.next_due_ms() == NOW_MS + min(times[: id + 1])


def test_many_entries_move_down_in_slices_ahead_of_their_time() -> None:
    start_ms, slices, moved = NOW_MS // 655_360 * 655_360, 8, []
    at_ms = start_ms + 655_360
    wheel = TimerWheel(start_ms)
    take = timer_bucket.TimerBucket.take

    def counted(bucket: timer_bucket.TimerBucket, count: int) -> Iterator[tuple[int, int]]:
        moved.append(min(count, bucket.size))
        return take(bucket, count)

    count = slices * timer_wheel._SLICE
    for id in range(count):
        wheel.schedule(id, at_ms + id % 100_000)
    with mock.patch.object(timer_bucket.TimerBucket, "take", counted):
        woken = drain(wheel, start_ms)
    assert [(at, id) for at, id in woken] == sorted((at_ms + id % 100_000, id) for id in range(count))
    assert max(moved) <= timer_wheel._SLICE
    assert sum(moved) <= 3 * count


def test_a_clock_that_jumps_ten_years_passes_few_buckets() -> None:
    wheel = TimerWheel(NOW_MS)
    wheel.schedule(1, NOW_MS + TEN_YEARS_MS)
    wheel.schedule(2, NOW_MS + 5)
    drops = 0
    drop = TimerWheel._drop_first

    def counted(self: TimerWheel) -> None:
        nonlocal drops
        drops += 1
        drop(self)

    with mock.patch.object(TimerWheel, "_drop_first", counted):
        assert wheel.advance(NOW_MS + TEN_YEARS_MS) == [2, 1]
    assert drops < 10


def test_a_clock_that_jumps_over_a_bucket_that_is_half_moved_down() -> None:
    start_ms = NOW_MS // 655_360 * 655_360
    wheel = TimerWheel(start_ms)
    for id in range(8):
        wheel.schedule(id, start_ms + 2_560 + 100 * id)
    with small_bounds():
        assert wheel.advance(start_ms + 2_550) == []
        assert len({wheel._where[id] for id in range(8)}) == 3, "two moved, six did not"
        assert wheel.advance(start_ms + 60_000) == list(range(8))


def test_a_clock_that_goes_back_brings_nothing_early() -> None:
    wheel = TimerWheel(NOW_MS)
    wheel.advance(NOW_MS + 60_000)
    wheel.schedule(1, NOW_MS + 30_000)
    assert wheel.advance(NOW_MS) == []
    assert wheel.advance(NOW_MS + 29_999) == []
    assert wheel.advance(NOW_MS + 30_000) == [1]


def test_many_at_one_time_come_in_the_order_of_insertion_and_within_the_limit() -> None:
    wheel = TimerWheel(NOW_MS)
    for id in reversed(range(10_000)):
        wheel.schedule(id, NOW_MS + TICK_MS)
    wheel.schedule(10_000, NOW_MS + TICK_MS + 1)
    got = [wheel.advance(NOW_MS + 100, limit=3_000) for _ in range(5)]
    assert [len(part) for part in got] == [3_000, 3_000, 3_000, 1_001, 0]
    assert [id for part in got for id in part] == [*reversed(range(10_000)), 10_000]


def test_cancelled_entries_do_not_pile_up() -> None:
    wheel = TimerWheel(NOW_MS)
    for _ in range(1_000):
        for id in range(100):
            wheel.schedule(id, NOW_MS + 1_000_000)
    sizes = [bucket.size for bucket in wheel._buckets.values()]
    assert len(wheel) == 100
    assert sum(sizes) <= 300
    for id in range(100):
        assert wheel.cancel(id)
    assert wheel.next_due_ms() is None
    assert not wheel._buckets


@pytest.mark.parametrize(("id", "at_ms"), [(1, 2**63), (1, -(2**63)), (2**63, NOW_MS), (1, 2**62)])
def test_what_does_not_fit_changes_nothing(id: int, at_ms: int) -> None:
    wheel = TimerWheel(NOW_MS)
    wheel.schedule(1, NOW_MS + 7)
    with pytest.raises((ValueError, OverflowError)):
        wheel.schedule(id, at_ms)
    assert len(wheel) == 1
    assert wheel.advance(NOW_MS + 7) == [1]
    assert wheel.next_due_ms() is None


def test_the_present_is_not_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        TimerWheel(-1)


@pytest.mark.parametrize("span_ms", [100_000, TEN_YEARS_MS])
def test_memory_of_a_pending_entry(span_ms: int) -> None:
    """Measured with a million entries: 95 bytes each, of which 32 are the id's own object."""
    count = 120_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        wheel = TimerWheel(NOW_MS)
        for index in range(count):
            wheel.schedule(2**40 + index, NOW_MS + index * 7919 * 10_007 % span_ms)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(wheel) == count
    assert used / count < 120
