"""A page of the delayed messages of several partitions, in order of time. Pure."""

from collections.abc import Sequence

from quiver.scheduling.pending import Pending


def delay_page(partitions: Sequence[Pending], skip: int, limit: int) -> list[tuple[int, int, int, int]]:
    """Time, index of the partition, id and priority of each message, in this order, behind the first `skip`.

    Where the page begins and ends is found by halving the time, so that one far behind costs no more than the first.
    """
    starts, ends = _positions(partitions, skip), _positions(partitions, skip + limit)
    found = [
        (time_ms, index, id, priority)
        for index, pending in enumerate(partitions)
        for time_ms, id, priority in pending.page(starts[index], ends[index])
    ]
    found.sort()
    return found


def _positions(partitions: Sequence[Pending], count: int) -> list[int]:
    """How many messages of each partition are among the first so many."""
    if count <= 0:
        return [0] * len(partitions)
    if count >= sum(map(len, partitions)):
        return [len(pending) for pending in partitions]
    low, high = 0, max(pending.last_ms() for pending in partitions) + 1
    while low + 1 < high:  # at most `count` are due before `low`, and more before `high`
        middle = (low + high) // 2
        if sum(pending.count_before(middle) for pending in partitions) <= count:
            low = middle
        else:
            high = middle
    positions = [pending.count_before(low) for pending in partitions]
    rest = count - sum(positions)
    for index, pending in enumerate(partitions):
        there = min(rest, pending.count_before(low + 1) - positions[index])
        positions[index] += there
        rest -= there
    return positions
