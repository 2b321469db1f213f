"""From deliveries and acknowledgements of runs to histograms by group and interval: never a row for a message. Pure.

Messages of one frame were stored at one time. So what a run and a frame have in common is one sample, weighed by
how many messages that is.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from quiver.reader.delivery_history import UNKNOWN, Acknowledged, DeadLettered, Delivered, Fact
from quiver.records.header import FrameHeader
from quiver_spark.jobs.latency.histogram import BUCKETS, Integers, buckets_of

INTERVALS = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
"""How long an interval of a report is, by its name."""
HOUR_MS = INTERVALS["hour"]
MEASURES = ("publish_to_delivery", "delivery_to_ack", "publish_to_ack")
COUNTERS = ("attempts", "redeliveries", "acks", "dead_letters", "publish_unknown")
NAMES = (*MEASURES, *COUNTERS)
"""What is counted, by number. Counters have one bucket."""
_PUBLISH_TO_DELIVERY, _DELIVERY_TO_ACK, _PUBLISH_TO_ACK, _ATTEMPTS, _REDELIVERIES, _ACKS, _DEAD, _UNKNOWN = range(8)
ROW_COLUMNS = "topic string, group_id bigint, interval bigint, measure int, bucket int, count bigint, highest bigint"
ROW_SCHEMA = pa.schema(
    [
        (name, {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}[kind])
        for name, kind in (column.split() for column in ROW_COLUMNS.split(","))
    ]
)
_FACTS_AT_ONCE = 200_000


class StoredTimes(NamedTuple):
    """The frames of a partition in order: their offsets, half open, and when the broker stored them."""

    start: Integers
    end: Integers
    time_ms: Integers

    @classmethod
    def of(cls, headers: Iterable[FrameHeader]) -> "StoredTimes":
        rows = [(each.base_offset, each.next_offset, each.append_time_ms) for each in headers]
        table = np.array(rows, np.int64).reshape(-1, 3)
        return cls(*(np.ascontiguousarray(column) for column in table.T))


class Common(NamedTuple):
    """What runs and frames have in common: the place of the run, how many messages, and when they were stored."""

    run: Integers
    messages: Integers
    time_ms: Integers


def common(start: Integers, end: Integers, stored: StoredTimes) -> Common:
    """Runs in any order; parts of runs that no frame has any more are left out."""
    first = stored.end.searchsorted(start, side="right")
    after = np.maximum(first, stored.start.searchsorted(end, side="left"))
    counts = after - first
    run = np.repeat(np.arange(len(start)), counts)
    frame = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    shared = np.minimum(end[run], stored.end[frame]) - np.maximum(start[run], stored.start[frame])
    return Common(run, shared, stored.time_ms[frame])


class Window(NamedTuple):
    """What happened from `start_ms` to before `end_ms` is counted."""

    start_ms: int = 0
    end_ms: int = 2**62
    interval_ms: int = HOUR_MS
    """It is counted by intervals of this length."""

    def has(self, at_ms: int) -> bool:
        return self.start_ms <= at_ms < self.end_ms


class Samples:
    """Takes facts, and makes histograms of them by group, interval, measure and bucket, each in its own
    interval.

    `stored` gives the frames with the offsets from one to another; it is asked when there are many facts, and last.
    """

    def __init__(self, window: Window, stored: Callable[[int, int], StoredTimes]) -> None:
        self._window = window
        self._stored = stored
        self._delivered: list[Delivered] = []
        self._acked: list[Acknowledged] = []
        self._cells: dict[tuple[int, int, int, int], tuple[int, int]] = {}

    def add_all(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self._add(fact)

    def _add(self, fact: Fact) -> None:
        if not self._window.has(fact.at_ms):
            return
        match fact:
            case Delivered():
                self._delivered.append(fact)
            case Acknowledged():
                self._acked.append(fact)
            case DeadLettered():
                self._put(fact.group, fact.at_ms // self._window.interval_ms, _DEAD, 0, fact.messages, 0)
        if len(self._delivered) + len(self._acked) >= _FACTS_AT_ONCE:
            self._count()

    def rows(self, topic: str) -> Iterator[pa.RecordBatch]:
        """All of them, as one batch of ROW_SCHEMA."""
        self._count()
        rows = [(*cell, *figures) for cell, figures in sorted(self._cells.items())]
        if rows:
            columns = [[topic] * len(rows), *zip(*rows, strict=True)]
            arrays = [pa.array(list(column), field.type) for column, field in zip(columns, ROW_SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)

    def _count(self) -> None:
        facts: list[Delivered | Acknowledged] = [*self._delivered, *self._acked]
        if not facts:
            return
        stored = self._stored(min(fact.start for fact in facts), max(fact.end for fact in facts))
        self._count_delivered(np.array(self._delivered, np.int64).reshape(-1, 5), stored)
        self._count_acked(np.array(self._acked, np.int64).reshape(-1, 5), stored)
        self._delivered, self._acked = [], []

    def _count_delivered(self, table: Integers, stored: StoredTimes) -> None:
        group, start, end, at_ms, attempt = table.T
        self._spread(group, at_ms, _ATTEMPTS, None, end - start)
        again = attempt > 1
        self._spread(group[again], at_ms[again], _REDELIVERIES, None, (end - start)[again])
        first = ~again
        self._since_stored(group[first], start[first], end[first], at_ms[first], _PUBLISH_TO_DELIVERY, stored)

    def _count_acked(self, table: Integers, stored: StoredTimes) -> None:
        group, start, end, at_ms, delivered_ms = table.T
        self._spread(group, at_ms, _ACKS, None, end - start)
        known = delivered_ms != UNKNOWN
        took = (at_ms - delivered_ms)[known]
        self._spread(group[known], at_ms[known], _DELIVERY_TO_ACK, took, (end - start)[known])
        self._since_stored(group, start, end, at_ms, _PUBLISH_TO_ACK, stored)

    def _since_stored(
        self, group: Integers, start: Integers, end: Integers, at_ms: Integers, measure: int, stored: StoredTimes
    ) -> None:
        run, count, time_ms = common(start, end, stored)
        self._spread(group[run], at_ms[run], measure, at_ms[run] - time_ms, count)
        if measure == _PUBLISH_TO_ACK:
            missing = (end - start) - np.bincount(run, count, len(start)).astype(np.int64)
            self._spread(group, at_ms, _UNKNOWN, None, missing)

    def _spread(
        self, group: Integers, at_ms: Integers, measure: int, took_ms: Integers | None, count: Integers
    ) -> None:
        """Adds weighed samples of one measure; those without a time are a counter."""
        some = count > 0
        group, interval, count = group[some], at_ms[some] // self._window.interval_ms, count[some]
        if not len(count):
            return
        took = np.zeros_like(count) if took_ms is None else np.maximum(0, took_ms[some])
        groups, group_place = np.unique(group, return_inverse=True)
        intervals, interval_place = np.unique(interval, return_inverse=True)
        place = (group_place * len(intervals) + interval_place) * BUCKETS + buckets_of(took)
        places, inverse = np.unique(place, return_inverse=True)
        counts = np.zeros(len(places), np.int64)
        highest = np.zeros(len(places), np.int64)
        np.add.at(counts, inverse, count)
        np.maximum.at(highest, inverse, took)
        for at, number, high in zip(places.tolist(), counts.tolist(), highest.tolist(), strict=True):
            cell, bucket = divmod(at, BUCKETS)
            group_at, interval_at = divmod(cell, len(intervals))
            self._put(int(groups[group_at]), int(intervals[interval_at]), measure, bucket, number, high)

    def _put(self, group: int, interval: int, measure: int, bucket: int, count: int, highest: int) -> None:
        cell = (group, interval, measure, bucket)
        known, high = self._cells.get(cell, (0, 0))
        self._cells[cell] = (known + count, max(high, highest))
