"""Collects the numbers of this process from those who own them, in slices so that others get their turns."""

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from quiver.metrics.labels import NameLabels, SharedCounts
from quiver.metrics.series import ALL
from quiver.system.pace import Pace
from quiver.telemetry.exposition import Collected, Labels, Series, exposition


class Collection:
    """One scrape: where sources put their numbers."""

    def __init__(self, topics: NameLabels, groups: NameLabels, shared: SharedCounts) -> None:
        self.values = Collected()
        self.topics = topics
        self.groups = groups
        self._shared = shared
        self.pace = Pace()

    def count(self, owner: tuple[object, ...], counts: Iterable[tuple[Series, float, Labels]]) -> None:
        """The counters of one owner. Where a label is shared, they are kept when the owner is gone."""
        counts = list(counts)
        if counts and "" in counts[0][2][:2]:
            self._shared.add(owner, counts)
            return
        numbers = self.values.numbers
        for series, value, labels in counts:
            of_series = numbers.get(series.name)
            if of_series is None:
                of_series = numbers[series.name] = {}
            of_series[labels] = of_series.get(labels, 0) + value


class Source(Protocol):
    async def collect(self, collection: Collection) -> None:
        """Puts its numbers into the collection."""


class Collector:
    """Only one scrape at a time may run."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = list(sources)
        self._topics, self._groups, self._shared = NameLabels(), NameLabels(), SharedCounts()

    async def collect(self) -> Collected:
        """The numbers of this process, as data that can be added to those of others."""
        self._shared.begin()
        collection = Collection(self._topics, self._groups, self._shared)
        for source in self.sources:
            await source.collect(collection)
            await collection.pace.turn()
        self._shared.end(collection.values)
        return collection.values


async def text_of(collected: Collected, *, open_metrics: bool) -> AsyncIterator[str]:
    pace = Pace()
    for piece in exposition(collected, ALL, open_metrics=open_metrics):
        yield piece
        await pace.turn()
