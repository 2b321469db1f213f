"""Settlements of a group that are made in memory and may not last: not decided yet, or not on disk yet. Pure.

They hold the group's committed offset: it goes over what is decided and durable, and over nothing else.
"""

from collections import deque


class PendingAcks:
    """Changes are numbered in the order of the journal, so they become durable in this order."""

    __slots__ = ("_last_token", "_undecided", "_unsynced")

    def __init__(self) -> None:
        self._undecided: dict[int, int] = {}
        """By token, the lowest offset of acks whose transaction is being decided on."""
        self._unsynced: deque[tuple[int, int]] = deque()
        """Number of the change and its lowest offset. An offset that is not below a later one holds nothing, and is
        left out: so offsets rise, the first is the lowest, and each costs O(1)."""
        self._last_token = 0

    def add_unsynced(self, start: int, change: int) -> None:
        """A change settles messages from an offset on."""
        while self._unsynced and self._unsynced[-1][1] >= start:
            self._unsynced.pop()
        self._unsynced.append((change, start))

    def add_undecided(self, start: int) -> int:
        """Returns a token: `decided` or `taken_back` follow."""
        self._last_token += 1
        self._undecided[self._last_token] = start
        return self._last_token

    def decided(self, token: int, change: int) -> None:
        """The acks count, and are on their way to the journal."""
        start = self._undecided.pop(token, None)
        if start is not None:
            self.add_unsynced(start, change)

    def taken_back(self, token: int) -> None:
        self._undecided.pop(token, None)

    def lowest(self, synced: int) -> int | None:
        """The lowest offset that is held, when changes up to a number are on disk; None: nothing is."""
        while self._unsynced and self._unsynced[0][0] <= synced:
            self._unsynced.popleft()
        found = min(self._undecided.values(), default=None)
        if not self._unsynced:
            return found
        return self._unsynced[0][1] if found is None else min(found, self._unsynced[0][1])

    def clear(self) -> None:
        """The group begins elsewhere: what was settled before holds nothing any more."""
        self._undecided.clear()
        self._unsynced.clear()
