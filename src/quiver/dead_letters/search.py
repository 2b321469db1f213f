"""Searches a dead-letter topic: the dead letters of all partitions in the order of dead-lettering."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import NamedTuple, TypeVar

from quiver.dead_letters.headers import read_dead_letter
from quiver.messages.stored_rows import StoredRow, read_rows
from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterFilter
from quiver.model.limits import KIB, MIB
from quiver.partition.partition import Partition
from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import joined

_SLICES_BYTES = 16 * MIB
"""For all partitions together, shared among them."""
_LEAST_SLICE_BYTES = 16 * KIB
_WINDOW_MESSAGES = 1000
_WINDOW_BYTES = 8 * MIB
_TURN_MESSAGES = 200
"""After this many others get a turn on the event loop: a slice of the log may have thousands of small messages."""
_NEAR = 63
"""A gap of this many dead letters is cheaper to read through than to skip with another read."""
_NOTHING_REMOVED = IntervalSet()

T = TypeVar("T")
Run = tuple[int, int]


class DeadLetterPartition(NamedTuple):
    """One partition of a dead-letter topic."""

    number: int
    partition: Partition
    removed: IntervalSet = _NOTHING_REMOVED
    """Redriven or purged: no longer dead letters, although they are still in the log."""


class Search(NamedTuple):
    filter: DeadLetterFilter
    after: DeadLetterCursor | None = None
    newest_first: bool = False


async def find_dead_letters(
    sources: Sequence[DeadLetterPartition], search: Search
) -> AsyncGenerator[DeadLetter, None]:
    """The matching dead letters at the beginning of the search, by time of dead-lettering, partition and offset."""
    slice_bytes = min(MIB, max(_LEAST_SLICE_BYTES, _SLICES_BYTES // max(1, len(sources))))
    walks = [walk for source in sources if (walk := await _open_walk(source, search, slice_bytes)) is not None]
    async for dead_letter in merged(walks, lambda each: each.cursor, newest_first=search.newest_first):
        yield dead_letter


async def merged(
    walks: Sequence[AsyncIterator[T]], cursor: Callable[[T], DeadLetterCursor], *, newest_first: bool
) -> AsyncGenerator[T, None]:
    """Several searches as one, each of which is in order."""
    sign = -1 if newest_first else 1
    heads: list[tuple[tuple[int, int, int], int, T]] = []

    async def push(place: int) -> None:
        async for found in walks[place]:
            died_at_ms, partition, offset = cursor(found)
            heapq.heappush(heads, ((sign * died_at_ms, sign * partition, sign * offset), place, found))
            return

    for place in range(len(walks)):
        await push(place)
    for count in itertools.count(1):
        if not heads:
            return
        _, place, found = heapq.heappop(heads)
        await push(place)
        if count % _TURN_MESSAGES == 0:
            await asyncio.sleep(0)
        yield found


async def _open_walk(
    source: DeadLetterPartition, search: Search, slice_bytes: int
) -> AsyncIterator[DeadLetter] | None:
    """The dead letters of one partition, or None if there is nothing to search."""
    wanted = search.filter
    if wanted.partition is not None and wanted.partition != source.number:
        return None
    start, end = await _bounds(source, search)
    runs = [run for part in _asked(wanted, source.number, start, end) for run in source.removed.gaps(*part)]
    return _walk(source, runs, search, slice_bytes) if runs else None


def _asked(wanted: DeadLetterFilter, number: int, start: int, end: int) -> list[Run]:
    if wanted.ids is None:
        return [(start, end)]
    offsets = IntervalSet((offset, offset + 1) for partition, offset in wanted.ids if partition == number)
    return list(offsets.within(start, end))


async def _bounds(source: DeadLetterPartition, search: Search) -> Run:
    """The offsets to search, according to the times and the cursor."""
    log, wanted, after = source.partition.log, search.filter, search.after
    start, end = log.start_offset, source.partition.committed.last_stable
    if wanted.from_time_ms is not None:
        start = max(start, await log.offset_for_time(wanted.from_time_ms))
    if wanted.to_time_ms is not None:
        end = min(end, await log.offset_for_time(wanted.to_time_ms + 1))
    if after is None:
        return start, end
    if search.newest_first:
        bound = after.offset if source.number == after.partition else await log.offset_for_time(after.died_at_ms + 1)
        return start, min(end, bound)
    ahead = after.offset + 1 if source.number == after.partition else await log.offset_for_time(after.died_at_ms)
    return max(start, ahead), end


async def _walk(
    source: DeadLetterPartition, runs: Sequence[Run], search: Search, slice_bytes: int
) -> AsyncIterator[DeadLetter]:
    after, newest_first, asked = search.after, search.newest_first, IntervalSet(runs)

    def choose(row: StoredRow) -> DeadLetter | None:
        if row.offset not in asked:
            return None
        dead_letter = read_dead_letter(source.number, row)
        if after is not None and (dead_letter.cursor >= after if newest_first else dead_letter.cursor <= after):
            return None
        return dead_letter if search.filter.fits(dead_letter) else None

    spans = joined(runs, gap=_NEAR)
    for start, end in reversed(spans) if newest_first else spans:
        if newest_first:
            slices = _backwards(source, start, end, choose)
        else:
            slices = read_rows(source.partition, start, end, choose, slice_bytes=slice_bytes)
        async for dead_letters in slices:
            for dead_letter in dead_letters:
                if dead_letter.offset not in source.removed:
                    yield dead_letter


async def _backwards(
    source: DeadLetterPartition, start: int, end: int, choose: Callable[[StoredRow], DeadLetter | None]
) -> AsyncIterator[list[DeadLetter]]:
    """The log is read forwards, in windows from the end on; a window with too much is cut in half."""
    length = _WINDOW_MESSAGES
    while start < end:
        low = max(start, end - length)
        window = await _window(source, low, end, choose)
        if window is None:
            length = max(1, (end - low) // 2)
            continue
        yield window[::-1]
        end = low


async def _window(
    source: DeadLetterPartition, start: int, end: int, choose: Callable[[StoredRow], DeadLetter | None]
) -> list[DeadLetter] | None:
    found: list[DeadLetter] = []
    size = 0
    async for dead_letters in read_rows(source.partition, start, end, choose):
        found += dead_letters
        size += sum(map(dead_letter_size, dead_letters))
        if size > _WINDOW_BYTES and end - start > 1:
            return None
    return found


def dead_letter_size(dead_letter: DeadLetter) -> int:
    """Approximately what it takes in memory and in a response."""
    return (
        256
        + len(dead_letter.value or b"")
        + len(dead_letter.key or b"")
        + sum(map(len, dead_letter.headers.values()))
    )
