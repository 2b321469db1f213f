"""The last changes, for watchers that are a little behind. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from quiver.coordination.port import Change
from quiver.model.limits import MIB

_REVISIONS = 10_000
_BYTES = 4 * MIB
_OVERHEAD_BYTES = 200
"""Of a change, beside its key and value."""


class ChangeHistory:
    """Bounded: what is forgotten, a watcher reads again as it is now. Each entry is one revision, without gaps."""

    def __init__(self, revision: int = 0, *, revisions: int = _REVISIONS, max_bytes: int = _BYTES) -> None:
        self._first = revision + 1
        """The first revision that is still known."""
        self._entries: deque[tuple[Change, ...]] = deque()
        self._bytes = 0
        self._revisions, self._max_bytes = revisions, max_bytes

    def add(self, changes: Sequence[Change]) -> None:
        """The changes of the next revision."""
        self._entries.append(tuple(changes))
        self._bytes += _size(changes)
        while len(self._entries) > self._revisions or (self._bytes > self._max_bytes and len(self._entries) > 1):
            self._bytes -= _size(self._entries.popleft())
            self._first += 1

    def covers(self, revision: int) -> bool:
        """Whether every change after a revision is known."""
        return revision + 1 >= self._first

    def after(self, revision: int, prefix: str, *, limit: int) -> tuple[int, list[Change]]:
        """The changes of at most `limit` revisions after this one, and the last of these revisions."""
        place = revision + 1 - self._first
        entries = list(islice(self._entries, place, place + limit))
        return revision + len(entries), list(_matching(entries, prefix))


def _matching(entries: Sequence[Sequence[Change]], prefix: str) -> Iterator[Change]:
    return (change for changes in entries for change in changes if change.key.startswith(prefix))


def _size(changes: Sequence[Change]) -> int:
    return sum(_OVERHEAD_BYTES + len(change.key) + len(change.value or b"") for change in changes)
