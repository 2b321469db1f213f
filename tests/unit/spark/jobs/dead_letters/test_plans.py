"""What the job about dead letters decides without Spark."""

import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver.structures.interval_set import IntervalSet
from quiver_spark.jobs import dead_letters
from quiver_spark.jobs.dead_letters.redrive import batch_size, batches, cut_at
from quiver_spark.jobs.dead_letters.report import report_tables, report_text, write_report
from quiver_spark.jobs.dead_letters.source import DeadLetterRanges, dead_letter_topics
from quiver_spark.jobs.dead_letters.transforms import ID_COLUMNS, offset_runs
from quiver_spark.jobs.replay.plan import Range

PLACES = st.tuples(st.sampled_from(["a.dlq", "b.dlq"]), st.integers(0, 2), st.integers(0, 20))


def test_which_topics_are_meant() -> None:
    there = ["a", "a.dlq", "b", "lost.dlq", "ab", "ab.dlq"]
    assert dead_letter_topics(there, [], None) == ["a.dlq", "ab.dlq", "lost.dlq"]
    assert dead_letter_topics(there, ["a", "b", "lost", "ab.dlq"], None) == ["a.dlq", "ab.dlq", "lost.dlq"]
    assert dead_letter_topics(there, [], "a.*") == ["a.dlq", "ab.dlq"]
    assert dead_letter_topics(there, [], "los.") == ["lost.dlq"]
    with pytest.raises(TopicNotFound, match="there is no topic 'c'"):
        dead_letter_topics(there, ["a", "c"], None)
    with pytest.raises(InvalidRequest, match="not a regular expression"):
        dead_letter_topics(there, [], "(")


def test_a_topic_with_a_name_that_has_no_room_for_the_suffix() -> None:
    long = "x" * 239
    assert dead_letter_topics([long, dead_letter_topic(long)], [long], None) == [dead_letter_topic(long)]
    assert dead_letter_topics([long, dead_letter_topic(long)], [], "x{239}") == [dead_letter_topic(long)]


@given(st.lists(st.lists(PLACES, unique=True), max_size=3))
def test_letters_become_runs_of_neighbours(batches: list[list[tuple[str, int, int]]]) -> None:
    schema = pa.schema(dict(zip(ID_COLUMNS, (pa.string(), pa.int32(), pa.int64()), strict=True)))
    given_batches = [
        pa.RecordBatch.from_arrays(
            [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)], schema=schema
        )
        for rows in batches
    ]
    found: list[list[tuple[str, int, int]]] = []
    for batch in offset_runs(iter(given_batches)):
        runs = [tuple(row.values()) for row in batch.to_pylist()]
        assert all(one[:2] != other[:2] or one[3] < other[2] for one, other in pairwise(runs))
        found.append([(topic, part, offset) for topic, part, start, stop in runs for offset in range(start, stop)])
    assert found == [sorted(rows) for rows in batches if rows]


def test_batches_have_letters_of_one_partition_in_order() -> None:
    selected = {("b.dlq", 0): IntervalSet([(7, 8)]), ("a.dlq", 1): IntervalSet([(0, 3), (5, 7)])}
    assert [(topic, list(map(str, ids))) for topic, ids in batches(selected, 2)] == [
        ("a.dlq", ["1:0", "1:1"]),
        ("a.dlq", ["1:2", "1:5"]),
        ("a.dlq", ["1:6"]),
        ("b.dlq", ["0:7"]),
    ]


@pytest.mark.parametrize(
    ("bytes_each", "rate", "size"), [(0.0, None, 5000), (200.0, 10, 10), (2**20, None, 16), (2**30, 7, 1)]
)
def test_a_request_stays_short(bytes_each: float, rate: int | None, size: int) -> None:
    assert batch_size(bytes_each, rate) == size


def test_what_a_limit_leaves_of_the_ranges() -> None:
    ranges = [Range("a.dlq", 0, 2, 50), Range("a.dlq", 1, 0, 50)]
    cut = cut_at(ranges, {("a.dlq", 0): IntervalSet([(3, 4), (8, 10)])})
    assert cut == [Range("a.dlq", 0, 2, 10), Range("a.dlq", 1, 0, 0)]
    now = DeadLetterRanges([*(each._replace(stop=90) for each in ranges), Range("a.dlq", 2, 0, 9)], {}, 0.0)
    assert now.only(cut).ranges == [*cut, Range("a.dlq", 2, 0, 0)], "a partition that is new has no part in the run"


@pytest.mark.parametrize(
    ("source", "settings", "problem"),
    [
        ({}, {}, "name the topics whose dead letters"),
        ({"topic": "a", "path": "/data"}, {}, "name it, not a data directory"),
        ({"topic": "a"}, {"limit": 0}, "limit is 1 or more"),
        ({"topic": "a"}, {"rate": 0}, "rate is 1 or more"),
        ({"topic": "a"}, {"state": "/tmp"}, "give a run id too"),
    ],
)
def test_what_is_not_redriven(source: dict[str, object], settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        dead_letters.redrive(None, source, **settings)  # type: ignore[arg-type]


def test_a_bucket_that_is_none() -> None:
    with pytest.raises(InvalidRequest, match="there are hour and day"):
        dead_letters.report(None, {}, bucket="week")  # type: ignore[arg-type]


def at(minute: int) -> datetime:
    return datetime(2026, 1, 31, 12, minute, tzinfo=UTC)


def row(table: str, dead_letters: int, ids: Sequence[str] = ("0:1", "1:7"), **columns: Any) -> dict[str, Any]:
    ends = {"oldest": {"first": at(0), "id": ids[0]}, "newest": {"last": at(5), "id": ids[1]}}
    return {"table": table, "messages": dead_letters, **ends, **columns}


ROWS = [
    row("topics", 2, topic="b", group=None, reason=None),
    row("topics", 2000, topic="a", group="g", reason="expired"),
    row("attempts", 2, attempts=None),
    row("attempts", 2000, attempts=4),
    row("times", 2002, time=at(0)),
]
ERRORS = [row("", 2000, topic="a", error="late:\n" + "x" * 100), row("", 2, ("0:3", "0:3"), topic="b", error=None)]


def test_the_report_for_people() -> None:
    tables = report_tables(ROWS, ERRORS)
    assert [each["topic"] for each in tables["topics"]] == ["a", "b"], "the most first"
    lines = report_text(tables).splitlines()
    assert lines[:3] == [
        "by topic, group and reason",
        "  topic  group  reason   messages  first                     last                      examples",
        "  a      g      expired     2,000  2026-01-31T12:00:00.000Z  2026-01-31T12:05:00.000Z  0:1, 1:7",
    ]
    [error] = [line for line in lines if "late: xxx" in line]
    assert "x…  " in error
    assert "x" * 60 not in error
    assert [line.split()[:3] for line in lines if line.endswith("0:3")] == [["b", "-", "2"]]
    assert report_text(report_tables([], [])) == ""


def test_the_report_as_files(tmp_path: Path) -> None:
    tables = report_tables(ROWS, ERRORS)
    for _ in range(2):
        paths = write_report(tmp_path / "new" / "place", {"rows": 2002, **tables}, tables)
    assert sorted(path.name for path in paths) == sorted(path.name for path in (tmp_path / "new" / "place").iterdir())
    assert json.loads(paths[0].read_text())["attempts"][0]["attempts"] is None
    with (tmp_path / "new" / "place" / "errors.csv").open(newline="") as file:
        [first, _] = list(csv.DictReader(file))
    assert (first["error"], first["messages"], first["examples"]) == ("late:\n" + "x" * 100, "2000", "0:1 1:7")
