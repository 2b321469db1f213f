"""Pages of dead letters, and of those that were removed."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from quiver.dead_letters.search import dead_letter_size
from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterId
from quiver.model.limits import PAGE_BYTES

REMOVED_RUNS = 20_000
"""Per page, so that it does not block the event loop."""


class DeadLetterPage(NamedTuple):
    dead_letters: list[DeadLetter]
    total: int
    """The number of dead letters in the topic, whatever the filter."""
    next: DeadLetterCursor | None
    """Where the next page begins; None after the last."""


class RemovedDeadLetterPage(NamedTuple):
    """Dead letters that were redriven or purged, but are still in the log."""

    runs: list[tuple[int, int, int]]
    """Partition, first offset, and the offset after the last."""
    next: DeadLetterId | None
    """Where the next page begins; None after the last."""


async def first_page(
    walk: AsyncIterator[DeadLetter], *, limit: int, skip: int
) -> tuple[list[DeadLetter], DeadLetterCursor | None]:
    """The beginning of a search, and where the next page begins. Large dead letters make a page shorter."""
    found: list[DeadLetter] = []
    size = 0
    async for dead_letter in walk:
        if skip:
            skip -= 1
            continue
        if len(found) >= limit or size >= PAGE_BYTES:
            return found, found[-1].cursor
        found.append(dead_letter)
        size += dead_letter_size(dead_letter)
    return found, None


def merged_removed(pages: Iterable[RemovedDeadLetterPage]) -> RemovedDeadLetterPage:
    """Pages of several processes, each of which begins at the same place."""
    pages = list(pages)
    runs = sorted(run for page in pages for run in page.runs)
    following = min((page.next for page in pages if page.next is not None), default=None)
    if following is not None:  # what comes after it is not complete
        runs = [run for run in runs if run[:2] < following]
    if len(runs) > REMOVED_RUNS:
        partition, _, end = runs[REMOVED_RUNS - 1]
        following = DeadLetterId(partition, end)
    return RemovedDeadLetterPage(runs[:REMOVED_RUNS], following)
