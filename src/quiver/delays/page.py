"""A page of the delayed messages of several partitions, in order of time."""

from collections.abc import Sequence

from quiver.delays.pending import Pending
from quiver.system.pace import Pace, paced


async def delay_page(partitions: Sequence[Pending], skip: int, limit: int) -> list[tuple[int, int, int, int]]:
    """Time, index of the partition, id and priority of each message, in this order, after the first `skip`.

    The page is found by bisecting the time, so that a late page costs no more than the first. Messages that come or
    leave meanwhile may or may not be in the page.
    """
    starts, ends = await _positions(partitions, skip), await _positions(partitions, skip + limit)
    found: list[tuple[int, int, int, int]] = []
    async for index, pending in paced(enumerate(partitions)):
        if starts[index] < ends[index]:
            found += [(time, index, id, priority) for time, id, priority in pending.page(starts[index], ends[index])]
    found.sort()
    return found


async def _positions(partitions: Sequence[Pending], count: int) -> list[int]:
    """How many messages of each partition are among the first `count`."""
    if count <= 0:
        return [0] * len(partitions)
    if count >= sum(map(len, partitions)):
        return [len(pending) for pending in partitions]
    low, high = 0, max(pending.last_ms() for pending in partitions) + 1
    pace = Pace()
    while low + 1 < high:  # at most `count` are due before `low`, and more before `high`
        await pace.turn()
        middle = (low + high) // 2
        if sum(pending.count_before(middle) for pending in partitions) <= count:
            low = middle
        else:
            high = middle
    await pace.turn()
    positions = [pending.count_before(low) for pending in partitions]
    rest = count - sum(positions)
    for index, pending in enumerate(partitions):
        if rest <= 0:
            break
        there = min(rest, pending.count_before(low + 1) - positions[index])
        positions[index] += there
        rest -= there
    return positions
