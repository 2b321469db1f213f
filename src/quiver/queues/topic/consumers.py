"""The consumers of a topic and group: how many messages each holds, and when it was last seen. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

_REMEMBERED_MS = 60_000
_REMEMBERED = 1_000


class Consumer(NamedTuple):
    first_seen_ms: int
    last_seen_ms: int
    held: int


class Consumers:
    """What is noted is not below the truth: the partitions that have changed are asked when it matters.

    Acks count before they are on disk. One that is undone leaves its consumer with more than it may hold, until it
    settles something in that partition again.
    """

    def __init__(self, held_in: Callable[[int], Mapping[str, int]], now_ms: int) -> None:
        self._held_in = held_in
        self._began_ms = now_ms
        self._noted: dict[int, dict[str, int]] = {}
        self._totals: dict[str, int] = {}
        self.changed: set[int] = set()
        """Partitions in which somebody may hold less than is noted."""
        self._seen: dict[str, tuple[int, int]] = {}
        """First and last time, the least recently seen first."""

    def seen(self, consumer: str, now_ms: int) -> None:
        first_ms, _ = self._seen.pop(consumer, (now_ms, now_ms))
        self._seen[consumer] = (first_ms, now_ms)
        if len(self._seen) > _REMEMBERED:
            self._forget(now_ms)

    def took(self, partition: int, consumer: str, count: int) -> None:
        noted = self._noted.setdefault(partition, {})
        noted[consumer] = noted.get(consumer, 0) + count
        self._totals[consumer] = self._totals.get(consumer, 0) + count

    def room(self, consumer: str, *, limit: int, want: int) -> int:
        """How many of `want` the consumer may have now."""
        if limit - self._totals.get(consumer, 0) < want:
            self._recount()
        return max(0, min(want, limit - self._totals.get(consumer, 0)))

    def known(self, now_ms: int) -> dict[str, Consumer]:
        """Those who hold something, or were there a short while ago."""
        self._recount()
        self._forget(now_ms)
        began = (self._began_ms, self._began_ms)
        return {
            name: Consumer(*self._seen.get(name, began), self._totals.get(name, 0))
            for name in sorted(self._totals.keys() | self._seen.keys())
        }

    def _forget(self, now_ms: int) -> None:
        for name, (_, last_ms) in list(self._seen.items()):
            if last_ms + _REMEMBERED_MS > now_ms:
                return
            del self._seen[name]

    def _recount(self) -> None:
        for partition in self.changed:
            before, now = self._noted.get(partition, {}), dict(self._held_in(partition))
            for consumer in before.keys() | now.keys():
                total = self._totals.get(consumer, 0) + now.get(consumer, 0) - before.get(consumer, 0)
                if total > 0:
                    self._totals[consumer] = total
                else:
                    self._totals.pop(consumer, None)
            self._noted[partition] = now
        self.changed.clear()
