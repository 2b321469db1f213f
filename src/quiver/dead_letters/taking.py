"""What a redrive or a purge takes: in slices, counted."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from quiver.dead_letters.search import Search
from quiver.model.dead_letter import DeadLetterCursor, DeadLetterId
from quiver.model.limits import MIB

_IDS_SHOWN = 1000
SLICE_MESSAGES = 1000
_SLICE_BYTES = 8 * MIB
T = TypeVar("T")


class DeadLettersTaken(NamedTuple):
    """What a redrive or a purge took from the dead-letter topic, or would take."""

    dead_letter_count: int
    ids: list[DeadLetterId]
    """The first thousand."""
    missing: list[DeadLetterId]
    """Ids that were given and do not exist, or no longer."""
    next: DeadLetterCursor | None = None
    """After the last one taken, when the limit was reached."""


class TakenCount:
    """What was taken so far."""

    def __init__(self, search: Search) -> None:
        self._count = 0
        self._ids: list[DeadLetterId] = []
        self._missing = dict.fromkeys(DeadLetterId(*id) for id in search.filter.ids or ())

    def add(self, ids: Iterable[DeadLetterId]) -> None:
        for id in ids:
            self._count += 1
            self._missing.pop(id, None)
            if len(self._ids) < _IDS_SHOWN:
                self._ids.append(id)

    def result(self, following: DeadLetterCursor | None) -> DeadLettersTaken:
        return DeadLettersTaken(self._count, self._ids, list(self._missing), following)


async def slices(
    walk: AsyncIterator[T], limit: int | None, size_of: Callable[[T], int]
) -> AsyncIterator[tuple[Sequence[T], bool]]:
    """A thousand at a time, and whether the limit is reached with them."""
    found: list[T] = []
    size = count = 0
    async for each in walk:
        found.append(each)
        size += size_of(each)
        count += 1
        if count == limit:
            yield found, True
            return
        if len(found) >= SLICE_MESSAGES or size >= _SLICE_BYTES:
            yield found, False
            found, size = [], 0
    if found:
        yield found, False


async def limited(walk: AsyncIterator[T], limit: int) -> AsyncIterator[T]:
    """The first of them."""
    count = 0
    async for each in walk:
        yield each
        count += 1
        if count >= limit:
            return
