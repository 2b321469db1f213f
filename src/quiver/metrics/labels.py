"""Which topics and groups have series of their own, and what the others share."""

from collections.abc import Iterable, Mapping

from quiver.telemetry.exposition import Collected, Labels, Series

MAX_LABELS = 1_000
"""So many topics, and so many groups, have a label; the rest share the empty one."""


class NameLabels:
    """A name gets its label, or none, when it is first seen, in the order of ids, and keeps it while it exists."""

    def __init__(self, most: int = MAX_LABELS) -> None:
        self._most = most
        self._labels: dict[int, str] = {}
        self._used = 0

    def update(self, names: Mapping[int, str]) -> None:
        """What exists now, by id; the rest is forgotten, and makes room for new ones."""
        for id in self._labels.keys() - names.keys():
            self._used -= bool(self._labels.pop(id))
        for id in sorted(names.keys() - self._labels.keys()):
            has_room = self._used < self._most
            self._used += has_room
            self._labels[id] = names[id] if has_room else ""

    def of(self, id: int) -> str:
        return self._labels.get(id, "")


class SharedCounts:
    """Counters of those that share a label must not fall when one of them is deleted: its last values stay in a
    base."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], dict[tuple[Series, Labels], float]] = {}
        self._base: dict[tuple[Series, Labels], float] = {}
        self._seen: dict[tuple[object, ...], dict[tuple[Series, Labels], float]] = {}

    def begin(self) -> None:
        self._seen = {}

    def add(self, owner: tuple[object, ...], counts: Iterable[tuple[Series, float, Labels]]) -> None:
        known = self._seen[owner] = dict[tuple[Series, Labels], float]()
        for series, value, labels in counts:
            known[series, labels] = known.get((series, labels), 0) + value

    def end(self, collected: Collected) -> None:
        """Puts the sums of everybody who shares, and who did, into the collection."""
        for owner in self._known.keys() - self._seen.keys():
            for key, value in self._known[owner].items():
                self._base[key] = self._base.get(key, 0) + value
        self._known = self._seen
        for counts in (self._base, *self._known.values()):
            for (series, labels), value in counts.items():
                collected.add(series, value, *labels)
