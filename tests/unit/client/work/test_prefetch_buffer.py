"""The prefetch buffer hands out every message once, urgent ones first, each level in order."""

import operator
import sys
import threading
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.client.work.held_run import HeldRun, ranges_of
from quiver.client.work.key_queues import KeyQueues
from quiver.client.work.leases import Leases
from quiver.client.work.prefetch_buffer import PrefetchBuffer
from quiver.client.work.window import PrefetchWindow
from quiver.protocol.queue_messages import ReceivedRun
from quiver.records.build import build_frame


def run_of(start: int, count: int, level: int = 2, lease: int = 1, visibility_ms: int = 30_000) -> HeldRun:
    frame = bytearray(build_frame([b"x"] * count, timestamp_ms=1, priority=level))
    frame[8:16] = start.to_bytes(8, "little")
    received = ReceivedRun(1, 0, 1, lease, start, start + count, 1, 0, visibility_ms, 0, "", len(frame))
    return HeldRun(received, "jobs", memoryview(frame), 0.0)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 4), st.integers(1, 6)),
        st.tuples(st.just("take"), st.integers(1, 8), st.integers(0, 8)),
        st.tuples(st.just("clear"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_everything_goes_out_once_and_in_order_inside_its_level(chosen: list[tuple[str, int, int]]):
    buffer: PrefetchBuffer[Any] = PrefetchBuffer()
    put: dict[int, list[int]] = {level: [] for level in range(5)}
    out: dict[int, list[int]] = {level: [] for level in range(5)}
    offset = 0
    for now_ms, (step, first, second) in enumerate(chosen):
        if step == "put":
            buffer.add([run_of(offset, second, first)], 0.0)
            put[first] += range(offset, offset + second)
            offset += second
        elif step == "clear":
            buffer.return_all()
        elif (taken := buffer.take(first, now_ms)) is not None:
            run = taken.buffered.run
            jobs = iter(run.offsets()[taken.first : taken.last])
            buffer.set_current(taken, jobs)
            out[run.level] += islice(jobs, second)
        assert buffer.count == offset - sum(map(len, out.values()))
        assert all(out[level] == put[level][: len(out[level])] for level in out)
    left = [number for _, start, end in buffer.drain() for number in range(start, end)]
    assert sorted(left) == sorted(set(range(offset)) - {number for numbers in out.values() for number in numbers})
    assert buffer.count == 0
    assert buffer.size_bytes == 0


def test_something_more_urgent_clears_the_counter():
    buffer: PrefetchBuffer[Any] = PrefetchBuffer()
    buffer.add([run_of(0, 10, level=3)], 0.0)
    taken = buffer.take(10, 1)
    jobs = iter(range(10))
    buffer.set_current(taken, jobs)
    assert next(jobs) == 0
    buffer.add([run_of(10, 1, level=3)], 0.0)
    assert operator.length_hint(jobs) == 9
    buffer.add([run_of(11, 1, level=0)], 0.0)
    assert operator.length_hint(jobs) == 0
    assert buffer.count == 11
    levels = []
    for _ in range(5):
        taken = buffer.take(1, 2)
        assert buffer.hand_out(taken)
        levels.append(taken.buffered.run.level)
    assert 0 in levels


@pytest.mark.parametrize("revoke", ["stop_key", "return_all"])
def test_what_is_revoked_before_it_is_handed_out_is_in_the_buffer(revoke: str):
    buffer: PrefetchBuffer[Any] = PrefetchBuffer()
    run = run_of(0, 3)
    buffer.add([run], 0.0)
    taken = buffer.take(3, 1)
    if revoke == "stop_key":
        buffer.stop_key(run.lease, b"a")
        assert buffer.is_stopped(run.lease, b"a")
    else:
        buffer.return_all()
    assert not buffer.set_current(taken, iter([0, 1, 2]))
    assert not buffer.hand_out(taken)
    buffer.give_back(taken)
    assert buffer.count == 3


def test_a_taken_slice_that_is_not_handed_out_comes_again():
    buffer: PrefetchBuffer[Any] = PrefetchBuffer()
    buffer.add([run_of(0, 3)], 0.0)
    first = buffer.take(2, 1)
    again = buffer.take(2, 1)
    assert (again.first, again.last) == (first.first, first.last) == (0, 2)
    assert buffer.hand_out(again)
    buffer.drop(again.buffered.run)
    assert buffer.take(2, 1) is None


def test_a_run_is_stale_after_a_third_of_its_lease():
    buffer: PrefetchBuffer[Any] = PrefetchBuffer()
    assert buffer.stale_at() == float("inf")
    buffer.add([run_of(0, 2, visibility_ms=3000)], 5.0)
    buffer.add([run_of(2, 2, visibility_ms=30_000)], 5.5)
    assert buffer.stale_at() == 6.0
    taken = buffer.take(2, 1)
    assert buffer.stale_at() == 15.5
    buffer.set_current(taken, iter([1, 2]))
    assert buffer.stale_at() == 6.0


@given(st.sets(st.integers(0, 60)))
def test_ranges_are_the_offsets(offsets: set[int]):
    ranges = list(ranges_of(sorted(offsets)))
    assert {offset for start, end in ranges for offset in range(start, end)} == offsets
    assert all(end < start for (_, end), (start, _) in pairwise(ranges))
    assert list(ranges_of(range(3, 7))) == [(3, 7)]
    assert list(ranges_of(range(3, 3))) == []


def test_leases_are_renewed_together_and_only_what_is_open():
    leases = Leases()
    first, second = run_of(0, 10, lease=1), run_of(10, 10, lease=2)
    leases.add([first, second])
    assert leases.renew_at == pytest.approx(10.0)
    assert leases.due(9.0) == []
    leases.close([(first, 2, 5), (second, 10, 20)])
    assert len(leases) == 1
    [part] = leases.due(10.0)
    assert [(start, end) for _, start, end, _ in part.spans] == [(0, 2), (5, 10)]
    assert leases.renew_at == pytest.approx(20.0)
    leases.renewed(part, 10.5)
    assert first.expires_at == pytest.approx(40.5)
    leases.lose((first, 0, 1))
    first.extend(5, 7, 12.0, 60_000)
    [part] = leases.due(25.0)
    assert [(start, end) for _, start, end, _ in part.spans] == [(1, 2), (7, 10)]
    leases.renew_again(part, 26.0)
    assert leases.renew_at == 26.0
    leases.close([(first, 1, 2), (first, 5, 10)])
    assert len(leases) == 0


def test_the_window_follows_the_consumer():
    window = PrefetchWindow(fixed=None, floor=3)
    for _ in range(20):
        window.grow()
    assert window.size == 4000
    window.note_wait(0.5)
    assert window.size == 4000
    for _ in range(20):
        window.note_wait(2.0)
    assert window.size == 3
    fixed = PrefetchWindow(fixed=5)
    fixed.grow()
    fixed.note_wait(9.0)
    fixed.shrink_to_floor()
    assert fixed.size == 5


class _Job:
    def __init__(self, key: bytes | None, number: int, lease: int = 1) -> None:
        self.topic, self.partition, self.key, self.number = "t", 0, key, number
        self.source = type("Source", (), {"run": run_of(number, 1, lease=lease)})()


def test_one_job_of_a_key_at_a_time():
    queues: KeyQueues[Any] = KeyQueues()
    first, second, third, other, free = _Job(b"a", 1), _Job(b"a", 2), _Job(b"a", 3, 2), _Job(b"b", 4), _Job(None, 5)
    jobs = iter([first, second, third, other, free, free])
    handed_out = list(iter(lambda: queues.next_of(lambda: next(jobs, None)), None))
    assert handed_out == [first, other, free, free]
    assert queues.drop_after(first, first.source.run.lease) == [second]
    assert queues.next_after(first) is third
    assert queues.next_after(third) is None
    assert queues.next_of(iter([second, None]).__next__) is second
    assert queues.next_after(free) is None
    assert queues.next_of(iter([first, None]).__next__) is None
    assert queues.clear() == [first]


def test_jobs_of_a_key_keep_their_order_between_threads():
    queues: KeyQueues[Any] = KeyQueues()
    jobs = iter([_Job(b"a", number) for number in range(3_000)])
    done: list[int] = []

    def work() -> None:
        while (job := queues.next_of(lambda: next(jobs, None))) is not None:
            while job is not None:
                done.append(job.number)
                job = queues.next_after(job)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert done == sorted(done)
    assert len(done) == 3_000
