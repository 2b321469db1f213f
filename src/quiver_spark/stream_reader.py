"""Streaming reads: where a query is in every partition, how far it may go, and the slices in between.

A query's offset is `{topic: {partition: next offset}}`. Spark keeps it in the checkpoint; nothing of it is kept here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from quiver.model.errors import TopicNotFound
from quiver.system.clock import SystemClock
from quiver_spark.catalogue import Catalogue, TopicExtent, bounded, chosen_topics, open_catalogue, resolve
from quiver_spark.data_loss import lost
from quiver_spark.options import read_options
from quiver_spark.ranges import Slice, cut, limit_rows
from quiver_spark.tasks import SliceReader, cores, tasks

Progress = dict[str, dict[str, int]]
Extents = dict[str, TopicExtent]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planning happens in one process that lives as long as the query; the same class reads in the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._slices = SliceReader(read_options(options, now_ms=SystemClock().now_ms(), streaming=True), schema)
        self._catalogue: Catalogue | None = None
        self._extents: Extents = {}
        """What was there when it was last looked at."""
        self._target: Extents | None = None
        """With availableNow: what was there when the query began."""

    def initialOffset(self) -> dict[str, Any]:
        options = self._slices.options
        offset: Progress = {}
        for name, topic in self._look().items():
            positions = {number: options.start.at(name, number) for number in range(len(topic.earliest))}
            found = resolve(self._opened(), topic, positions)
            offset[name] = {str(number): found[number] for number in sorted(found)}
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._slices.options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; with a limit, every partition gets its share of it."""
        extents = self._look() if self._target is None else self._target
        self._check_gone(start, extents)
        whole = [
            Slice(name, number, self._begin(start, topic, number), behind, topic.id)
            for name, topic in extents.items()
            for number, behind in enumerate(topic.latest)
        ]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        wanted = whole if most is None else limit_rows(whole, most)
        offset: Progress = {name: dict(parts) for name, parts in start.items()}
        for piece in wanted:
            offset.setdefault(piece.topic, {})[str(piece.partition)] = piece.stop
        return _sorted(offset)

    def _begin(self, start: Mapping[str, Any], topic: TopicExtent, number: int) -> int:
        """Where a partition is; one that is new begins with its first message, as one that was made anew does."""
        known = start.get(topic.name, {}).get(str(number))
        if known is None or known > topic.latest[number]:
            return topic.earliest[number]
        return max(int(known), topic.earliest[number])

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """How far there are messages: what `latestOffset` in a query's progress shows."""
        if not self._extents:
            return None
        return _sorted(
            {name: {str(n): behind for n, behind in enumerate(t.latest)} for name, t in self._extents.items()}
        )

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._look()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The slices between two offsets, which may come from a checkpoint; what is missing of them is data loss."""
        options = self._slices.options
        extents = self._extents if self._knows(end) else self._look()
        wanted = [
            self._between(start.get(name, {}).get(number), stop, int(number), extents[name])
            for name, parts in end.items()
            if name in extents
            for number, stop in parts.items()
        ]
        self._check_gone(end, extents)
        slices = cut(wanted, cores=cores(options), min_slices=options.min_partitions)
        return tasks([self._opened().completed(piece) for piece in slices], options)

    def _between(self, begin: int | None, stop: int, number: int, topic: TopicExtent) -> Slice:
        fails = self._slices.options.fail_on_data_loss
        piece = Slice(topic.name, number, topic.earliest[number] if begin is None else begin, stop, topic.id)
        if piece.start > stop:
            why = f"the partition ends at {topic.latest[number]} now, it lost messages or was made anew"
            lost(piece._replace(start=topic.latest[number]), piece.start, why, fails=fails)
            piece = piece._replace(start=topic.earliest[number])
        return bounded(piece, topic, fails=fails)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._slices.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """The checkpoint is the truth."""

    def stop(self) -> None:
        if self._catalogue is not None:
            self._catalogue.close()

    def _opened(self) -> Catalogue:
        if self._catalogue is None:
            self._catalogue = open_catalogue(self._slices.options)
        return self._catalogue

    def _look(self) -> Extents:
        catalogue = self._opened()
        names = chosen_topics(catalogue, self._slices.options)
        self._extents = {name: catalogue.extent(name) for name in sorted(names)}
        return self._extents

    def _knows(self, end: Mapping[str, Any]) -> bool:
        """Whether the last look reaches as far as an offset."""
        for name, parts in end.items():
            topic = self._extents.get(name)
            if topic is None or any(int(n) >= len(topic.latest) or topic.latest[int(n)] < parts[n] for n in parts):
                return False
        return True

    def _check_gone(self, offset: Mapping[str, Any], extents: Extents) -> None:
        """A topic that a query has read and that is no longer there."""
        for name in offset:
            if name not in extents and self._slices.options.fail_on_data_loss:
                raise TopicNotFound(
                    f"topic {name!r} of this query is gone; set failOnDataLoss to false to go on without it",
                    topic=name,
                )


def _sorted(offset: Progress) -> dict[str, Any]:
    """Equal offsets are equal as text: that is how Spark compares them."""
    return {name: {n: offset[name][n] for n in sorted(offset[name], key=int)} for name in sorted(offset)}
