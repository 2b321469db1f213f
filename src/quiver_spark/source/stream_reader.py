"""Streaming reads: where a query is in every partition, how far it may go, and the slices in between.

Spark keeps the offset of a query in its checkpoint; nothing of it is kept here.
"""

import logging
import time
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
from quiver_spark.progress.batch_delay import BatchDelay
from quiver_spark.progress.group_follower import group_follower
from quiver_spark.progress.reported_offset import reported_json
from quiver_spark.source.catalogue import (
    Catalogue,
    TopicExtent,
    bounded,
    chosen_topics,
    open_catalogue,
    start_offsets,
)
from quiver_spark.source.data_loss import lost
from quiver_spark.source.options import read_options
from quiver_spark.source.slices import Slice, cut, limit_rows
from quiver_spark.source.stream_offset import StreamOffset, TopicProgress, offset_json, parse_offset
from quiver_spark.source.tasks import SliceReader, cores, tasks

_logger = logging.getLogger("quiver_spark")
_DEPOSED_SECONDS = 5.0
"""How long a broker of a cluster may not know that another one leads by now: more than its lease."""
_PAUSE_SECONDS = 0.2
Extents = dict[str, TopicExtent]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planning happens in one process that lives as long as the query; the same class reads in the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        parsed = read_options(options, now_ms=SystemClock().now_ms(), streaming=True)
        self._slices = SliceReader(parsed, schema)
        self._catalogue: Catalogue | None = None
        self._extents: Extents = {}
        """The topics at the last look."""
        self._target: Extents | None = None
        """With availableNow: the topics when the query began."""
        self._gone: set[str] = set()
        """Topics that are known to be missing."""
        self._planned: StreamOffset = {}
        """Where the batch ends that was planned last."""
        self._delay = BatchDelay(parsed.min_rows_per_trigger, parsed.max_trigger_delay_seconds, SystemClock())
        self._follower = group_follower(parsed)

    def initialOffset(self) -> dict[str, Any]:
        options = self._slices.options
        offset: StreamOffset = {}
        topics = self._look(is_new=True)
        options.check_positions({name: len(topic.earliest) for name, topic in topics.items()})
        for name, topic in topics.items():
            offset[name] = TopicProgress(topic.id, start_offsets(self._opened(), topic, options))
        return offset_json(offset)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._slices.options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; with a limit, every partition gets its share of it.

        Spark asks when the batch that ended at `start` is done, so that is where a group may follow.
        """
        offset = parse_offset(start)
        if self._target is None:
            extents = self._look_beyond(offset)
        else:
            if self._falls_short(offset, self._target):
                self._target = self._look_beyond(offset)
            extents = self._target
        self._check_gone(offset, extents)
        if self._follower is not None:
            self._follower.follow(offset, {name: topic.id for name, topic in extents.items()})
        whole = [
            Slice(name, number, _begin(offset.get(name), topic, number), last, topic.id)
            for name, topic in extents.items()
            for number, last in enumerate(topic.latest)
            if self._slices.options.reads(name, number)
        ]
        self._planned = offset
        if self._target is None and self._delay.waits(sum(slice_.offsets for slice_ in whole)):
            return offset_json(offset)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        for name, topic in extents.items():
            offset[name] = TopicProgress(topic.id, self._left_out(offset.get(name), topic))
        for slice_ in whole if most is None else limit_rows(whole, most):
            offset[slice_.topic].next[slice_.partition] = slice_.stop
        return offset_json(offset)

    def _left_out(self, place: TopicProgress | None, topic: TopicExtent) -> dict[int, int]:
        """Where a query is in partitions that it does not read any more."""
        if place is None or place.id != topic.id:
            return {}
        reads = self._slices.options.reads
        return {number: offset for number, offset in place.next.items() if not reads(topic.name, number)}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of each partition, shown as `latestOffset` in the progress of a query, and how many messages of
        each topic come after the batch that is planned."""
        if not self._extents:
            return None
        reads = self._slices.options.reads
        ends = {
            name: TopicProgress(topic.id, {n: end for n, end in enumerate(topic.latest) if reads(name, n)})
            for name, topic in self._extents.items()
        }
        return reported_json(ends, self._planned)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._look()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The slices between two offsets, which may come from a checkpoint; what is missing of them is data loss."""
        options, first, last = self._slices.options, parse_offset(start), parse_offset(end)
        extents = self._extents if self._knows(last) else self._look_beyond(last)
        wanted = [
            slice_
            for name, place in last.items()
            if name in extents
            for slice_ in self._between(first.get(name), place, extents[name])
        ]
        self._check_gone(last, extents)
        slices = cut(
            wanted, cores=cores(options), min_slices=options.min_partitions, max_rows=options.max_rows_per_partition
        )
        return tasks([self._opened().completed(slice_) for slice_ in slices], options)

    def _between(self, start: TopicProgress | None, end: TopicProgress, topic: TopicExtent) -> Iterator[Slice]:
        """The slices of a topic in a batch; none if it was deleted and created again, as the old one is gone."""
        fails = self._slices.options.fail_on_data_loss
        if {place.id for place in (start, end) if place is not None} != {topic.id}:
            self._check_recreated(topic)
        if end.id != topic.id:
            return
        if start is not None and start.id != topic.id:
            start = None
        for number, stop in end.next.items():
            begin = topic.earliest[number] if start is None else start.next.get(number, topic.earliest[number])
            slice_ = Slice(topic.name, number, begin, stop, topic.id)
            if begin > stop:
                why = f"the partition ends at {topic.latest[number]} now, it lost messages"
                lost(slice_._replace(start=topic.latest[number]), begin, why, fails=fails)
                slice_ = slice_._replace(start=topic.earliest[number])
            yield bounded(slice_, topic, fails=fails)

    def _check_recreated(self, topic: TopicExtent) -> None:
        why = f"topic {topic.name!r} was deleted and created again; what this query had not read of it is gone"
        if self._slices.options.fail_on_data_loss:
            raise TopicNotFound(
                f"{why}; set failOnDataLoss to false to continue with the new one from its beginning",
                topic=topic.name,
            )
        _logger.warning("%s; the query continues with the new one from its beginning", why)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._slices.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint holds the position."""

    def stop(self) -> None:
        if self._catalogue is not None:
            self._catalogue.close()

    def _opened(self) -> Catalogue:
        if self._catalogue is None:
            self._catalogue = open_catalogue(self._slices.options)
        return self._catalogue

    def _look(self, *, is_new: bool = False) -> Extents:
        """The extents of the topics; a topic that is gone is left out, unless the query is new."""
        catalogue, found = self._opened(), Extents()
        for name in sorted(chosen_topics(catalogue, self._slices.options)):
            try:
                found[name] = catalogue.extent(name)
            except TopicNotFound:
                if is_new:
                    raise
        self._extents = found
        return found

    def _look_beyond(self, offset: StreamOffset) -> Extents:
        """The extents of the topics, when they reach as far as an offset that was there once.

        In a cluster a leader that was deposed and does not know it yet tells of an earlier end. If the end stays
        there, messages are lost.
        """
        deadline = time.monotonic() + _DEPOSED_SECONDS
        while True:
            found = self._look()
            if not self._falls_short(offset, found) or time.monotonic() > deadline:
                return found
            time.sleep(_PAUSE_SECONDS)

    def _falls_short(self, offset: StreamOffset, extents: Extents) -> bool:
        """Whether a topic that is still the same ends before an offset."""
        if self._slices.options.path is not None:
            return False
        return any(
            number < len(topic.latest) and topic.latest[number] < stop
            for name, place in offset.items()
            if (topic := extents.get(name)) is not None and topic.id == place.id
            for number, stop in place.next.items()
        )

    def _knows(self, end: StreamOffset) -> bool:
        """Whether the last look reaches as far as an offset."""
        for name, place in end.items():
            topic = self._extents.get(name)
            if topic is None or topic.id != place.id:
                return False
            if any(number >= len(topic.latest) or topic.latest[number] < stop for number, stop in place.next.items()):
                return False
        return True

    def _check_gone(self, offset: StreamOffset, extents: Extents) -> None:
        """A topic that a query has read or is to read, and that is not there."""
        options = self._slices.options
        gone = {*offset, *options.topics} - extents.keys()
        if gone and options.fail_on_data_loss:
            name = min(gone)
            raise TopicNotFound(
                f"topic {name!r} of this query is gone; set failOnDataLoss to false to continue without it",
                topic=name,
            )
        for name in sorted(gone - self._gone):
            _logger.warning("topic %r of this query is gone; the query continues without it", name)
        self._gone = gone


def _begin(place: TopicProgress | None, topic: TopicExtent, number: int) -> int:
    """Where a partition is; one that is new, or that lost messages, begins with its first message."""
    if place is None or place.id != topic.id:
        return topic.earliest[number]
    known = place.next.get(number, 0)
    return topic.earliest[number] if known > topic.latest[number] else max(known, topic.earliest[number])
