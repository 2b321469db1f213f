"""Collects the numbers of this process from those who own them, in slices so that others get their turns."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from quiver.metrics.labels import NameLabels, SharedCounts
from quiver.metrics.series import ALL
from quiver.system.pace import Pace
from quiver.telemetry.exposition import Collected, Exposition, Labels, Series


class Collection:
    """One scrape: where sources put their numbers."""

    def __init__(self, topics: NameLabels, groups: NameLabels, shared: SharedCounts) -> None:
        self.values = Collected()
        self.topics = topics
        self.groups = groups
        self._shared = shared
        self.pace = Pace()

    def count(self, owner: tuple[object, ...], counts: Sequence[tuple[Series, float, Labels]]) -> None:
        """The counters of one owner, which may have several values with the same labels. Where a label is shared,
        they are kept when the owner is gone."""
        if counts and "" in counts[0][2][:2]:
            self._shared.add(owner, counts)
            return
        numbers = self.values.numbers
        for series, value, labels in counts:
            name = series.name
            try:
                of_series = numbers[name]
            except KeyError:
                of_series = numbers[name] = {}
            of_series[labels] = of_series[labels] + value if labels in of_series else value


class Source(Protocol):
    async def collect(self, collection: Collection) -> None:
        """Puts its numbers into the collection."""


class Collector:
    """Only one scrape at a time may run."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = list(sources)
        self._topics, self._groups, self._shared = NameLabels(), NameLabels(), SharedCounts()
        self._exposition = Exposition()

    async def collect(self) -> Collected:
        """The numbers of this process, as data that can be added to those of others."""
        self._shared.begin()
        collection = Collection(self._topics, self._groups, self._shared)
        for source in self.sources:
            await source.collect(collection)
            await collection.pace.turn()
        self._shared.end(collection.values)
        return collection.values

    async def text_of(self, collected: Collected, *, open_metrics: bool) -> bytes:
        pace, pieces = Pace(), list[str]()
        for piece in self._exposition.lines(collected, ALL, open_metrics=open_metrics):
            pieces.append(piece)
            await pace.turn()
        return "".join(pieces).encode()
