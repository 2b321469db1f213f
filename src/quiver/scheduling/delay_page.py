"""A page of the delayed messages of several partitions, in order of time. Pure."""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from quiver.scheduling.pending import Delayed, Pending

_LAST_TIME_MS = 1 << 48
_READ_AT_ONCE = 256


def delay_page(partitions: Sequence[Pending], skip: int, limit: int) -> list[tuple[int, Delayed]]:
    """Messages with the index of their partition, by time, then partition, then id, behind the first `skip`.

    Where the page begins is found by halving the time, so that a page far behind costs no more than the first.
    """
    starts = [skip] if len(partitions) == 1 else _starts(partitions, skip)
    rows = [_rows(pending, index, starts[index]) for index, pending in enumerate(partitions)]
    found = islice(merge(*rows), limit)
    return [(index, delayed) for _, index, delayed in found]


def _starts(partitions: Sequence[Pending], skip: int) -> list[int]:
    """How many messages of each partition come before the page."""
    if not skip:
        return [0] * len(partitions)
    low, high = 0, _LAST_TIME_MS
    while low + 1 < high:  # at most `skip` are before `low`, more are before `high` if there are more at all
        middle = (low + high) // 2
        if sum(pending.count_before(middle) for pending in partitions) <= skip:
            low = middle
        else:
            high = middle
    starts = [pending.count_before(low) for pending in partitions]
    rest = skip - sum(starts)
    for index, pending in enumerate(partitions):
        there = min(rest, pending.count_before(low + 1) - starts[index])
        starts[index] += there
        rest -= there
    return starts


def _rows(pending: Pending, index: int, start: int) -> Iterator[tuple[int, int, Delayed]]:
    while page := pending.page(start, start + _READ_AT_ONCE):
        for delayed in page:
            yield delayed.deliver_at_ms, index, delayed
        start += len(page)
