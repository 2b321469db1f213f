"""What a replay selects, how it is portioned, what is remembered of a run; also what a compaction decides."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import CorruptData, InvalidRequest, OffsetOutOfRange, QuiverError
from quiver_spark.jobs.arguments import batch_read_options
from quiver_spark.jobs.command_options import settings as spark_settings
from quiver_spark.jobs.compact.job import by_partition, run_key
from quiver_spark.jobs.progress import Summary
from quiver_spark.jobs.replay.plan import (
    Range,
    Times,
    batch_rows,
    batches,
    chosen_files,
    lake_ranges,
    row_condition,
    times_of,
)
from quiver_spark.jobs.run_record import RunRecord, RunRecords
from quiver_spark.lake.files import LakeFile
from quiver_spark.runtime.failures import error_in

HOUR_MS = 3_600_000


def lake_file(topic: str, partition: int, start: int, stop: int, hour: int) -> LakeFile:
    """Rows from `start` to `stop` of one hour."""
    low, high = hour * HOUR_MS * 1000, (hour + 1) * HOUR_MS * 1000 - 1
    return LakeFile(
        topic, "1970-01-01", partition, start, stop, "a", stop - start, 9, start, stop - 1, 0, 0, low, high
    )


FILES = [
    lake_file("a", 0, 0, 100, 0),
    lake_file("a", 0, 100, 200, 1),
    lake_file("a", 1, 5, 50, 1),
    lake_file("b", 0, 0, 10, 2),
]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 300)), min_size=1, max_size=5),
    st.integers(1, 200),
)
def test_batches_have_every_offset_once_in_order(spans: list[tuple[int, int]], most: int) -> None:
    ranges = [Range("t", number, start, start + length) for number, (start, length) in enumerate(spans)]
    reached = {each.partition: each.start for each in ranges}
    for batch in batches(ranges, most):
        assert 0 < sum(each.stop - each.start for each in batch) <= most
        for each in batch:
            assert each.start == reached[each.partition]
            reached[each.partition] = each.stop
    assert reached == {each.partition: each.stop for each in ranges}


def test_a_rate_makes_batches_small() -> None:
    assert batch_rows(None) == 10_000_000
    assert batch_rows(100) == 500
    with pytest.raises(InvalidRequest, match="rate of 0 rows"):
        batch_rows(0)


def test_ranges_of_a_lake() -> None:
    def ranges(partitions: list[int] | None = None, **options: object) -> list[tuple[str, int, int, int]]:
        return [each[:4] for each in lake_ranges(FILES, batch_read_options(options), partitions)]

    assert ranges(topics="a,b") == [("a", 0, 0, 200), ("a", 1, 5, 50), ("b", 0, 0, 10)]
    assert ranges([1], topic="a") == [("a", 1, 5, 50)]
    assert ranges(topic="a", start=30, end=120) == [("a", 0, 30, 120), ("a", 1, 30, 50)]
    assert ranges(topic="a", start='{"0": 150}', end='{"1": 7}') == [("a", 0, 150, 200), ("a", 1, 5, 7)]
    assert ranges(topic="b", start=50) == [("b", 0, 50, 50)]
    assert ranges(topic="b", start="latest") == [("b", 0, 10, 10)]


def test_files_that_cannot_have_the_rows_are_not_read() -> None:
    whole = [Range("a", 0, 0, 200), Range("a", 1, 5, 50)]
    assert chosen_files(FILES, whole, Times()) == FILES[:3]
    assert chosen_files(FILES, [Range("a", 0, 100, 101)], Times()) == [FILES[1]]
    assert chosen_files(FILES, whole, Times(HOUR_MS, None)) == FILES[1:3]
    assert chosen_files(FILES, whole, Times(None, HOUR_MS)) == FILES[:1]


def test_times_are_conditions_on_rows() -> None:
    times = times_of(batch_read_options({"topic": "a", "start": "1970-01-01T01:00:00Z"}))
    assert times == Times(HOUR_MS, None)
    assert row_condition([Range("a", 1, 5, 7)], times) == (
        "((topic = 'a' AND partition = 1 AND offset >= 5 AND offset < 7))"
        " AND append_time >= timestamp_millis(3600000)"
    )
    assert row_condition([], Times()) == "false"


def test_a_run_goes_on_with_what_it_planned(tmp_path: Path) -> None:
    records = RunRecords(tmp_path / "runs")
    planned = RunRecord({"topic": "a"}, [Range("a", 0, 0, 10)], Times(None, 5), 100)
    assert records.begin("r1", planned) == planned
    records.keep("r1", RunRecord({"topic": "a"}, [Range("a", 0, 0, 10)], Times(None, 5), 100, done=3))
    later = RunRecord({"topic": "a"}, [Range("a", 0, 0, 99)], Times(None, 9), 7)
    found = records.begin("r1", later)
    assert (found.done, found.ranges, found.times, found.batch_rows) == (
        3,
        [Range("a", 0, 0, 10)],
        Times(None, 5),
        100,
    )
    with pytest.raises(InvalidRequest, match=r"other settings \(topic\)"):
        records.begin("r1", RunRecord({"topic": "b"}, [], Times(), 1))
    with pytest.raises(InvalidRequest, match=r"run id '\.\./x'"):
        records.begin("../x", planned)
    (tmp_path / "runs" / "r2.json").write_text("{")
    with pytest.raises(CorruptData, match="use another run id"):
        records.begin("r2", planned)


def test_errors_of_workers_come_back_as_they_were() -> None:
    text = (
        "Traceback (most recent call last):\n  ...\nquiver.model.errors.OffsetOutOfRange: offsets 1 to 2 are gone\n"
    )
    error = error_in(f"An exception was thrown\n{text}\nmore", "the replay")
    assert isinstance(error, OffsetOutOfRange)
    assert error.message == "offsets 1 to 2 are gone"
    other = error_in("Job aborted\nOSError: [Errno 28] No space left on device\n", "the archive")
    assert type(other) is QuiverError
    assert other.message == "the archive failed in Spark: OSError: [Errno 28] No space left on device"
    assert error_in("plain\ntext", "x").message == "x failed in Spark: plain"


def test_runs_of_one_partition_in_a_batch() -> None:
    batch = pa.RecordBatch.from_pydict({"partition": pa.array([0, 0, 2, 5, 5, 5], pa.int32())})
    assert [(number, part.num_rows) for number, part in by_partition(batch)] == [(0, 2), (2, 1), (5, 3)]


def test_the_same_compaction_has_the_same_key() -> None:
    one, other = [Range("a", 0, 0, 5), Range("a", 1, 0, 5)], [Range("a", 1, 0, 5), Range("a", 0, 0, 5)]
    assert run_key(one, "b", False) == run_key(other, "b", False)
    assert (
        len(
            {
                run_key(one, "b", False),
                run_key(one, "b", True),
                run_key(one, "c", False),
                run_key(one[:1], "b", False),
            }
        )
        == 4
    )


def test_settings_of_spark() -> None:
    assert spark_settings(["spark.executor.memory = 4g", "a=b=c"]) == {"spark.executor.memory": "4g", "a": "b=c"}
    with pytest.raises(InvalidRequest, match="is not NAME=VALUE"):
        spark_settings(["spark.x"])


def test_a_summary_says_how_fast_it_was() -> None:
    summary = Summary(job="archive", rows=500, files=2, bytes=9, seconds=0.25, details={"version": 3})
    assert summary.record() == {
        "job": "archive", "rows": 500, "files": 2, "bytes": 9, "seconds": 0.25, "rows_per_second": 2000, "version": 3
    }  # fmt: skip
    assert Summary(job="x").rows_per_second == 0


NAMESAKES = [
    *(file._replace(topic_id=None) for file in FILES[:1]),
    FILES[1]._replace(topic_id=3),
    lake_file("a", 0, 0, 80, 2)._replace(topic_id=7),
    lake_file("b", 0, 0, 10, 2)._replace(topic_id=4),
]
"""Topic `a` by an earlier version, which kept no ids, then with its id, then another one of its name."""


def test_topics_that_had_the_same_name_are_replayed_one_after_the_other() -> None:
    ranges = lake_ranges(NAMESAKES, batch_read_options({"topics": "a,b"}), None)
    assert ranges == [
        Range("a", 0, 0, 100),
        Range("a", 0, 100, 200, 3),
        Range("a", 0, 0, 80, 7),
        Range("b", 0, 0, 10, 4),
    ]
    whole = list(batches(ranges, 1000))
    assert [[(each.topic, each.topic_id) for each in batch] for batch in whole] == [
        [("a", 0), ("b", 4)],
        [("a", 3)],
        [("a", 7)],
    ]
    assert [file.topic_id for batch in whole for file in chosen_files(NAMESAKES, batch, Times())] == [
        None,
        4,
        3,
        7,
    ]
    small = [each for batch in batches(ranges, 30) for each in batch if each.topic == "a"]
    assert [each.topic_id for each in small] == sorted(each.topic_id for each in small)
    assert sum(each.stop - each.start for each in small) == 280


def test_offsets_mean_nothing_for_several_topics_of_one_name() -> None:
    for options in ({"start": 5}, {"end": '{"0": 7}'}):
        with pytest.raises(InvalidRequest, match=r"several topics that were named 'a' \(ids 3, 7\).*--topic-id"):
            lake_ranges(NAMESAKES, batch_read_options({"topic": "a", **options}), None)
    assert lake_ranges(NAMESAKES[:2], batch_read_options({"topic": "a", "start": 50}), None)[0].start == 50
    assert len(lake_ranges(NAMESAKES, batch_read_options({"topic": "a", "start": "-1d"}), None)) == 3


def test_places_that_the_lake_does_not_have() -> None:
    with pytest.raises(InvalidRequest, match="'start' names partition 5, which does not exist; a: 0 to 1"):
        lake_ranges(FILES, batch_read_options({"topic": "a", "start": '{"5": 3}'}), None)


def test_a_record_of_before_ids_is_read(tmp_path: Path) -> None:
    kept = b'{"asked":{"topic":"a"},"ranges":[["a",0,0,10]],"times":[null,null],"batch_rows":5,"done":1}'
    (tmp_path / "r.json").write_bytes(kept)
    planned = RunRecord({"topic": "a"}, [Range("a", 0, 0, 10, 3)], Times(), 5)
    assert RunRecords(tmp_path).begin("r", planned).ranges == [Range("a", 0, 0, 10)]
