"""The figures of a report: percentiles and counts by topic, group and interval, and of all of them together. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from quiver_spark.jobs.latency.histogram import Histogram, Percentiles
from quiver_spark.jobs.latency.samples import COUNTERS, HOUR_MS, INTERVALS, MEASURES, NAMES


class HistogramRow(msgspec.Struct, frozen=True):
    """One bucket of one measure of a topic, group and interval."""

    topic: str
    group_id: int
    interval: int
    """Intervals since 1970."""
    measure: int
    bucket: int
    count: int
    highest: int


class Cell(NamedTuple):
    topic: str
    group: str
    at_ms: int | None
    """When the interval begins; None: all of them."""
    measures: Mapping[str, Percentiles]
    counters: Mapping[str, int]

    @property
    def time(self) -> str | None:
        return None if self.at_ms is None else time_text(self.at_ms)

    def record(self, interval: str = "hour") -> dict[str, Any]:
        """Flat, for files; `interval` is the name of the column of the time."""
        figures = {
            f"{measure}_{name}" if name == "count" else f"{measure}_{name}_ms": value
            for measure in MEASURES
            for name, value in msgspec.structs.asdict(self.measures[measure]).items()
        }
        return {"topic": self.topic, "group": self.group, interval: self.time, **self.counters, **figures}


class Report(NamedTuple):
    totals: Sequence[Cell]
    """One per topic and group."""
    intervals: Sequence[Cell]
    """By topic, group and time."""
    interval_ms: int = HOUR_MS

    @property
    def interval(self) -> str:
        """hour, minute or day."""
        return next(name for name, length_ms in INTERVALS.items() if length_ms == self.interval_ms)

    def of(self, topic: str, group: str) -> list[Cell]:
        return [cell for cell in self.intervals if (cell.topic, cell.group) == (topic, group)]

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(cell.topic for cell in self.totals))

    @property
    def groups(self) -> list[str]:
        """Groups with the most acks first."""
        acks: dict[str, int] = {}
        for cell in self.totals:
            acks[cell.group] = acks.get(cell.group, 0) + cell.counters["acks"]
        return sorted(acks, key=lambda group: (-acks[group], group))

    @property
    def first_ms(self) -> int:
        return min(cell.at_ms or 0 for cell in self.intervals)

    @property
    def last_ms(self) -> int:
        """When the last interval begins."""
        return max(cell.at_ms or 0 for cell in self.intervals)


class _Gathered:
    def __init__(self) -> None:
        self.histograms = {name: Histogram() for name in NAMES}

    def cell(self, topic: str, group: str, at_ms: int | None) -> Cell:
        measures = {name: self.histograms[name].percentiles() for name in MEASURES}
        return Cell(topic, group, at_ms, measures, {name: self.histograms[name].count for name in COUNTERS})


def report(rows: Iterable[HistogramRow], names: Mapping[int, str], interval_ms: int = HOUR_MS) -> Report:
    """Groups without a name were deleted; they go by their number."""
    intervals: dict[tuple[str, str, int], _Gathered] = {}
    totals: dict[tuple[str, str], _Gathered] = {}
    for row in rows:
        group = names.get(row.group_id, f"#{row.group_id}")
        for gathered in (
            intervals.setdefault((row.topic, group, row.interval), _Gathered()),
            totals.setdefault((row.topic, group), _Gathered()),
        ):
            gathered.histograms[NAMES[row.measure]].add(row.bucket, row.count, row.highest)
    return Report(
        [gathered.cell(topic, group, None) for (topic, group), gathered in sorted(totals.items())],
        [
            gathered.cell(topic, group, number * interval_ms)
            for (topic, group, number), gathered in sorted(intervals.items())
        ],
        interval_ms,
    )


def time_text(at_ms: int) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
