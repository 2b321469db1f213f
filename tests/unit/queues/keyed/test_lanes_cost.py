"""What ordered lanes take in memory, with very many messages and keys."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from quiver.model.queue import QueueSettings
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import LeaseTerms, StoredRun
from quiver.queues.state.retry_policy import RetryPolicy

NOW_MS = 10_000
FRAME = 4_000


class Grown:
    bytes = 0


@contextmanager
def growth() -> Iterator[Grown]:
    """How much memory is in use afterwards that was not before."""
    grown = Grown()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield grown
        gc.collect()
        grown.bytes = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def feed(state: LaneState, keys: list[bytes | None]) -> None:
    start = state.position(0)
    state.feed(0, [StoredRun(start, start + len(keys), 2, keys)], start + len(keys))


def take(state: LaneState, count: int, lease: int) -> int:
    deadline_ms = NOW_MS + 30_000
    taken = state.take(2, count, LeaseTerms(lease, "ann", deadline_ms), NOW_MS)
    state.lease_taken()
    state.events.clear()
    return sum(run.end - run.start for run in taken)


def test_a_message_behind_a_blocked_key_takes_few_bytes() -> None:
    state = LaneState(1, 0)
    feed(state, [b"hot", *[b"warm"] * 9])
    take(state, 10, 1)
    keys: list[bytes | None] = [b"hot" if number % 3 else b"warm" for number in range(FRAME)]
    with growth() as grown:
        for _ in range(20):
            feed(state, keys)
    assert state.counts().read_ahead == 20 * FRAME
    assert state.available(NOW_MS) == [0] * 5
    assert grown.bytes / (20 * FRAME) < 12


def test_a_leased_message_of_a_key_of_its_own_takes_some_hundred_bytes() -> None:
    state, count = LaneState(1, 0), 5 * FRAME
    with growth() as grown:
        for lease in range(1, 6):
            feed(state, [b"key %d" % number for number in range(lease * FRAME, (lease + 1) * FRAME)])
            assert take(state, FRAME, lease) == FRAME
    assert state.counts().leased == count
    assert grown.bytes / count < 450


def test_keys_that_are_done_leave_nothing_while_one_is_stuck() -> None:
    state = LaneState(1, 0)
    feed(state, [b"stuck"])
    take(state, 1, 1)
    lease = 1

    def work_through(first: int) -> None:
        nonlocal lease
        lease += 1
        start = state.position(0)
        feed(state, [b"key %d" % number for number in range(first, first + FRAME - 1)] + [b"stuck"])
        assert take(state, FRAME, lease) == FRAME - 1
        assert state.ack(lease, [(start, start + FRAME - 1)]).refused == []
        state.events.clear()

    work_through(0)
    with growth() as grown:
        for turn in range(1, 7):
            work_through(turn * FRAME)
    assert grown.bytes / (6 * FRAME) < 10
    assert state.blocked_keys(NOW_MS, 10) == [(b"stuck", 7)]
    assert state.lowest_unsettled() == 0
    assert state.ack(1, [(0, 1)]).refused == []
    assert state.lowest_unsettled() == FRAME


def test_a_group_that_is_forgotten_leaves_nothing() -> None:
    with growth() as grown:
        state = LaneState(1, 0)
        feed(state, [b"key %d" % number for number in range(FRAME)])
        take(state, FRAME // 2, 1)
        state.nack(
            1,
            [(0, 100)],
            RetryPolicy(
                now_ms=NOW_MS,
                delay_ms=None,
                is_counted=True,
                error="boom",
                settings=QueueSettings(),
                jitter=1.0,
            ),
        )
        del state
    assert grown.bytes < 20_000


def test_chunks_of_a_snapshot_are_small_however_much_there_is() -> None:
    state = LaneState(1, 0)
    feed(state, [b"hot"])
    take(state, 1, 1)
    for turn in range(5):
        feed(state, [b"hot"] * FRAME)
        feed(state, [b"key %d" % number for number in range(turn * FRAME, (turn + 1) * FRAME)])
    assert take(state, 5 * FRAME, 2) == 5 * FRAME
    chunks = list(state.snapshot())
    assert max(map(len, chunks)) < 200_000
    again = LaneState(1, 0)
    again.restore(chunks)
    assert again.counts().leased == 5 * FRAME + 1
    assert again.position(0) == 1
    again.feed(0, [StoredRun(1, FRAME + 1, 2, [b"hot"] * FRAME)], FRAME + 1)
    assert again.position(0) == 2 * FRAME + 1
    assert again.counts().read_ahead == FRAME
