"""The figures, scales and pages of latency reports."""

import math
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
from quiver.reader.delivery_history import UNKNOWN, Acknowledged, DeadLettered, Delivered
from quiver_spark.jobs.latency.command import totals_table
from quiver_spark.jobs.latency.figures import HistogramRow, Report, report
from quiver_spark.jobs.latency.histogram import BUCKETS, ERROR, Histogram, buckets_of, value_of
from quiver_spark.jobs.latency.job import window_of
from quiver_spark.jobs.latency.lines import MOST_GROUPS, left_out, panels
from quiver_spark.jobs.latency.page import report_page
from quiver_spark.jobs.latency.samples import HOUR_MS, NAMES, Samples, StoredTimes, Window, common
from quiver_spark.jobs.latency.scale import (
    LOWEST_MS,
    height,
    latency_marks,
    latency_range,
    shown_ms,
    time_marks,
    unbroken_runs,
)
from quiver_spark.source.options import read_options

LATENCIES = st.integers(0, 200) | st.integers(0, 10**11)
NOON_MS = 1_800_014_400_000
"""12:00 UTC."""


@given(st.lists(LATENCIES, min_size=1, max_size=50))
@example([99, 100, 101, 102, 103, 200, 201, 10**11])
def test_a_bucket_stands_for_values_within_the_error(values: list[int]) -> None:
    for value, bucket in zip(values, buckets_of(np.array(values)).tolist(), strict=True):
        assert abs(value_of(bucket) - value) <= value * ERROR
        assert value > 100 or value_of(bucket) == value


def test_buckets_are_few_and_take_everything() -> None:
    assert BUCKETS < 1500
    assert buckets_of(np.array([-5, 0, 2**60])).tolist() == [0, 0, BUCKETS - 1]


@given(st.lists(st.tuples(LATENCIES, st.integers(1, 1000)), min_size=1, max_size=60))
def test_percentiles_of_weighed_values(pairs: list[tuple[int, int]]) -> None:
    histogram = Histogram()
    for value, weight in pairs:
        histogram.add(int(buckets_of(np.array([value]))[0]), weight, value)
    exact = sorted(value for value, weight in pairs for _ in range(weight))
    found = histogram.percentiles()
    assert (found.count, found.max) == (len(exact), exact[-1])
    for part, value in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99), (0.999, found.p999)):
        wanted = exact[math.ceil(part * len(exact)) - 1]
        assert abs(value - wanted) <= wanted * ERROR


def test_percentiles_of_nothing() -> None:
    assert Histogram().percentiles().count == 0


@st.composite
def frames(draw: st.DrawFn) -> StoredTimes:
    """Some with holes between them."""
    rows, offset = [], draw(st.integers(0, 5))
    for time in range(draw(st.integers(0, 8))):
        end = offset + draw(st.integers(1, 6))
        rows.append((offset, end, 1000 + time))
        offset = end + draw(st.sampled_from([0, 0, 3]))
    return StoredTimes(*np.array(rows, np.int64).reshape(-1, 3).T)


@given(frames(), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=8))
def test_what_runs_and_frames_have_in_common(stored: StoredTimes, runs: list[tuple[int, int]]) -> None:
    times = {n: t for start, end, t in zip(*map(np.ndarray.tolist, stored), strict=True) for n in range(start, end)}
    start = np.array([run[0] for run in runs], np.int64)
    found = common(start, start + np.array([run[1] for run in runs], np.int64), stored)
    got = sorted(zip(*map(np.ndarray.tolist, found), strict=True))
    wanted: dict[tuple[int, int], int] = {}
    for place, (first, count) in enumerate(runs):
        for offset in range(first, first + count):
            if offset in times:
                wanted[place, times[offset]] = wanted.get((place, times[offset]), 0) + 1
    assert {(run, time): count for run, count, time in got} == wanted
    assert len(got) == len(wanted)


def rows_of(samples: Samples) -> set[tuple[int, int, str, int, int]]:
    """Group, hour, what, how many, and the largest."""
    return {
        (row["group_id"], row["interval"], NAMES[row["measure"]], row["count"], row["highest"])
        for batch in samples.rows("t")
        for row in batch.to_pylist()
    }


def test_samples_are_counted_in_the_hour_in_which_they_happened() -> None:
    stored = StoredTimes(np.array([0, 10]), np.array([10, 20]), np.array([NOON_MS - 500, NOON_MS - 100]))
    samples = Samples(Window(), lambda start, end: stored)
    samples.add_all(
        [
            Delivered(7, 5, 15, NOON_MS - 90, 1),
            Acknowledged(7, 5, 15, NOON_MS + 10, NOON_MS - 90),
            Acknowledged(7, 15, 25, NOON_MS + 10, UNKNOWN),
            Delivered(8, 0, 3, NOON_MS, 2),
            DeadLettered(8, 3, NOON_MS),
        ]
    )
    noon = NOON_MS // HOUR_MS
    assert rows_of(samples) == {
        (7, noon - 1, "attempts", 10, 0),
        (7, noon - 1, "publish_to_delivery", 5, 410),
        (7, noon - 1, "publish_to_delivery", 5, 10),
        (7, noon, "acks", 20, 0),
        (7, noon, "delivery_to_ack", 10, 100),
        (7, noon, "publish_to_ack", 5, 510),
        (7, noon, "publish_to_ack", 10, 110),
        (7, noon, "publish_unknown", 5, 0),
        (8, noon, "attempts", 3, 0),
        (8, noon, "redeliveries", 3, 0),
        (8, noon, "dead_letters", 3, 0),
    }


def test_what_happened_outside_of_the_window_is_left_out() -> None:
    samples = Samples(Window(100, 200), lambda start, end: StoredTimes.of([]))
    samples.add_all(Delivered(7, 0, at_ms, at_ms, 1) for at_ms in (99, 100, 199, 200))
    assert {count for _, _, what, count, _ in rows_of(samples) if what == "attempts"} == {299}


def test_the_window_of_options() -> None:
    batch_read_options = {"topic": "t", "path": "/data"}
    assert window_of(read_options(batch_read_options, now_ms=NOON_MS)) == Window()
    both = {**batch_read_options, "start": "-1h", "end": "2027-01-15T12:00:00Z"}
    assert window_of(read_options(both, now_ms=NOON_MS)) == Window(NOON_MS - HOUR_MS, 1_800_014_400_000)
    for wrong in ({"start": "17"}, {"end": "earliest"}, {"start": '{"0": "-1h"}'}):
        with pytest.raises(InvalidRequest, match="is a time"):
            window_of(read_options({**batch_read_options, **wrong}, now_ms=NOON_MS))


def some_report(groups: int = 2, hours: int = 30, topics: tuple[str, ...] = ("orders", "a<b>&c")) -> Report:
    rows = [
        HistogramRow(topic, group, NOON_MS // HOUR_MS + hour, measure, 40 + 10 * group + hour, 100 * group, 5000)
        for topic in topics
        for group in range(1, groups + 1)
        for hour in range(hours)
        for measure in range(len(NAMES))
        if hour != 7
    ]
    return report(rows, {number: f"g{number}" for number in range(2, groups + 1)})


def test_a_report_has_hours_and_all_of_them_together() -> None:
    found = some_report()
    assert [(cell.topic, cell.group) for cell in found.totals] == [
        (topic, group) for topic in ("a<b>&c", "orders") for group in ("#1", "g2")
    ]
    assert found.groups == ["g2", "#1"], "the one with most acks first; one without a name was deleted"
    total, first = found.totals[-1], found.of("orders", "g2")[0]
    assert (total.counters["acks"], first.counters["acks"], first.time) == (29 * 200, 200, "2027-01-15T12:00:00Z")
    record = first.record()
    assert record["publish_to_ack_p50_ms"] == 60
    assert record["publish_to_ack_max_ms"] == 5000
    assert record["delivery_to_ack_count"] == 200
    assert len(found.intervals) == 4 * 29


def test_lines_leave_hours_without_messages_out() -> None:
    [[panel, *_], _] = panels(some_report())
    [line, _] = panel.lines
    assert (line.group, line.color, len(line.times)) == ("g2", 0, 29)
    assert unbroken_runs(line.times) == [(0, 7), (7, 29)]
    assert left_out(some_report(groups=MOST_GROUPS + 2)) == "The table has 2 more groups."
    assert left_out(some_report()) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1234, "1.2 s"),
        (59_999, "60.0 s"),
        (90_000, "1.5 min"),
        (3_600_000, "1 h"),
        (36 * 3_600_000, "1.5 d"),
    ],
)
def test_durations_for_people(value: int, text: str) -> None:
    assert shown_ms(value) == text


def test_the_axis_of_latencies() -> None:
    low, high = latency_range([0, 3, 700])
    assert (low, high) == (LOWEST_MS, 1000)
    assert [mark.label for mark in latency_marks(low, high)] == ["0 ms", "1 ms", "10 ms", "100 ms", "1 s"]
    assert height(0, low, high) == 0
    assert height(1000, low, high) == 1
    assert latency_range([]) == (1, 10)
    assert latency_range([10**13])[1] > 10**13


@pytest.mark.parametrize(
    ("hours", "labels"),
    [
        (1, ["15 Jan\n12:00"]),
        (4, ["15 Jan\n12:00", "13:00", "14:00", "15:00"]),
        (24, ["12:00", "18:00", "16 Jan", "6:00"]),
        (24 * 7, ["16 Jan", "18 Jan", "20 Jan", "22 Jan"]),
    ],
)
def test_the_axis_of_hours(hours: int, labels: list[str]) -> None:
    marks = time_marks(NOON_MS, NOON_MS + (hours - 1) * HOUR_MS, 5)
    assert [mark.label for mark in marks] == labels


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr"
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("line", "polyline")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_names_are_written_safely() -> None:
    text, page = report_page(some_report()), Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.rows == (2 + 4) + (2 + 4 * 29)
    assert "a<b" not in text
    assert "a&lt;b&gt;&amp;c" in text
    assert "http" not in text


def test_a_table_for_the_terminal() -> None:
    lines = totals_table([cell.record() for cell in some_report(topics=("orders",)).totals])
    assert [line.split()[:5] for line in lines[1:]] == [
        ["orders", "#1", "2,900", "2,900", "2,900"],
        ["orders", "g2", "5,800", "5,800", "5,800"],
    ]
