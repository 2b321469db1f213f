"""What an archive run reads, and which files the messages go to."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.model.errors import CorruptData, InvalidRequest, OffsetOutOfRange
from quiver.model.position import Position
from quiver.records.columns import MAX_TIMESTAMP_MS
from quiver_spark.jobs.archive.plan import remaining, rounds
from quiver_spark.jobs.arguments import batch_read_options
from quiver_spark.jobs.optimize.bins import bins
from quiver_spark.jobs.optimize.rewrite import RewriteTask
from quiver_spark.lake import slice_files
from quiver_spark.lake.files import LakeFile, date_of, file_of
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.parquet_file import FileForm
from quiver_spark.lake.schema import STORED_SCHEMA
from quiver_spark.lake.slice_files import SliceFiles, by_day
from quiver_spark.lake.storage.place import lake_place
from quiver_spark.lake.storage.store import Store, open_store
from quiver_spark.lake.table import Advance, Lake
from quiver_spark.source.catalogue import TopicExtent
from quiver_spark.source.slices import Slice

DAY_MS = 86_400_000
MIB = 2**20
FORM = FileForm(STORED_SCHEMA, "none")


def store(root: Path) -> Store:
    return open_store(lake_place(root))


def rows(offsets: Sequence[int], days: Sequence[int], partition: int = 0) -> pa.RecordBatch:
    """Messages with these offsets, a second after midnight of these days."""
    times = pa.array([day * DAY_MS * 1000 + 1_000_000 for day in days], pa.int64()).view(pa.timestamp("us", "UTC"))
    columns = {
        "partition": pa.array([partition] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": times,
        "append_time": times,
        "value": pa.array([b"v%d" % offset for offset in offsets], pa.binary()),
        "priority": pa.array(["normal"] * len(offsets)),
    }
    arrays = [columns.get(field.name, pa.nulls(len(offsets), field.type)) for field in STORED_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


def lake_file(start: int, stop: int, *, day: str = "2026-01-31", size: int = 1000, partition: int = 0) -> LakeFile:
    return LakeFile("t", day, partition, start, stop, f"a{start}", stop - start, size, start, stop - 1, 0, 0)


def test_the_name_of_a_file_has_its_range() -> None:
    file = lake_file(100, 250)
    assert file.path == "topic=t/date=2026-01-31/00000-00000000000000000100-00000000000000000250-a100.parquet"
    assert file_of(file.path) == LakeFile("t", "2026-01-31", 0, 100, 250, "a100")
    known = file._replace(topic_id=7)
    assert known.path.endswith("-t7-a100.parquet")
    assert file_of(known.path) == LakeFile("t", "2026-01-31", 0, 100, 250, "a100", topic_id=7)
    with pytest.raises(CorruptData, match="was not written by quiver"):
        file_of("topic=t/date=2026-01-31/part-0.parquet")


def test_rows_by_day_keep_their_order() -> None:
    found = {day: batch.column("offset").to_pylist() for day, batch in by_day(rows([1, 2, 4, 5, 9], [3, 3, 1, 3, 1]))}
    assert found == {1: [4, 9], 3: [1, 2, 5]}
    whole = rows([1, 2], [3, 3])
    assert [(day, batch is whole) for day, batch in by_day(whole)] == [(3, True)]


def test_the_first_and_the_last_day_of_a_timestamp() -> None:
    last = MAX_TIMESTAMP_MS // DAY_MS
    assert [date_of(day) for day, _ in by_day(rows([0, 1], [0, last]))] == ["1970-01-01", "9999-12-31"]


def read_back(root: Path, file: LakeFile) -> list[int]:
    found: list[int] = pq.read_table(root / file.path, partitioning=None).column("offset").to_pylist()
    return found


@settings(max_examples=30, deadline=None)
@given(days=st.lists(st.integers(0, 6), min_size=1, max_size=60), batch_rows=st.integers(1, 20))
def test_every_row_is_in_one_file_of_its_date(
    tmp_path_factory: pytest.TempPathFactory, days: list[int], batch_rows: int
) -> None:
    """With room for two open files, so that many are closed early: their ranges say so."""
    root = tmp_path_factory.mktemp("lake")
    common = LakeFile("t", "", 0, 0, len(days) + 5, "x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_files, "OPEN_FILES", 2)
        with SliceFiles(store(root), common, FORM) as files:
            for start in range(0, len(days), batch_rows):
                part = days[start : start + batch_rows]
                files.add(rows(range(start, start + len(part)), part))
            written = files.finish()
    found: dict[int, str] = {}
    for file in written:
        offsets = read_back(root, file)
        assert offsets == sorted(offsets)
        assert (file.rows, file.first_offset, file.last_offset) == (len(offsets), offsets[0], offsets[-1])
        assert all(file.start <= offset < file.stop for offset in offsets)
        found |= dict.fromkeys(offsets, file.date)
    assert found == {offset: date_of(day) for offset, day in enumerate(days)}
    assert sum(file.rows for file in written) == len(days)
    by_date: dict[str, int] = {}
    for file in written:
        assert file.start == by_date.get(file.date, 0)
        by_date[file.date] = file.stop


def test_what_was_not_finished_is_removed(tmp_path: Path) -> None:
    with SliceFiles(store(tmp_path), lake_file(0, 10), FORM) as files:
        files.add(rows([1, 2], [3, 3]))
        assert [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_neighbours_are_joined_up_to_the_target() -> None:
    files = [lake_file(start, start + 100) for start in range(0, 500, 100)]
    joined = bins(files, target_bytes=2500)
    assert [[file.start for file in group] for group in joined] == [[0, 100], [200, 300]]


def test_files_of_other_dates_and_partitions_stay_apart() -> None:
    apart = [lake_file(0, 100), lake_file(0, 100, day="2026-02-01"), lake_file(0, 100, partition=1)]
    assert bins(apart) == []
    assert bins([lake_file(0, 100), lake_file(50, 150)]) == [], "a topic that was created again"
    old, new = ([lake_file(*span)._replace(topic_id=id) for span in ((0, 9), (9, 20))] for id in (3, 8))
    assert bins([old[0], new[1], old[1], new[0]]) == [tuple(old), tuple(new)]
    assert bins([old[0], new[1], lake_file(20, 30)]) == [], "what follows is of another topic, or may be"


def test_a_joined_file_has_the_rows_and_the_whole_range(tmp_path: Path) -> None:
    written = []
    for start in (0, 10):
        with SliceFiles(store(tmp_path), LakeFile("t", "", 0, start, start + 7, "x"), FORM) as files:
            files.add(rows([start + 1, start + 3], [5, 5]))
            written += files.finish()
    joined = RewriteTask(lake_place(tmp_path), FORM).write(written).new
    assert joined is not None
    assert (joined.start, joined.stop, joined.rows) == (0, 17, 4)
    assert read_back(tmp_path, joined) == [1, 3, 11, 13]
    table = pq.read_table(tmp_path / joined.path, partitioning=None)
    assert table.column("value").to_pylist() == [b"v1", b"v3", b"v11", b"v13"]


class Topics:
    """A catalogue of topics as a test says they are."""

    def __init__(self, **topics: TopicExtent) -> None:
        self._topics = topics

    def names(self) -> list[str]:
        return list(self._topics)

    def extent(self, name: str) -> TopicExtent:
        return self._topics[name]

    def find(self, topic: TopicExtent, positions: Mapping[int, Position]) -> dict[int, int]:
        return dict.fromkeys(positions, 7)

    def completed(self, slice_: Slice) -> Slice:
        return slice_._replace(log="completed")

    def close(self) -> None: ...


def extent(earliest: list[int], latest: list[int], *, id: int = 3, size: int = 64 * MIB) -> TopicExtent:
    return TopicExtent("t", id, earliest, latest, size)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake", create=True)


def archived(lake: Lake, start: int | None, stop: int, *, partition: int = 0, id: int = 3) -> None:
    lake.commit([], [Advance("t", id, partition, start, stop)], {})


def left(lake: Lake, topic: TopicExtent, **options: object) -> list[tuple[int, int | None, int, int]]:
    """(partition, position, start, stop) of what is left."""
    source = batch_read_options({"topic": "t", **options})
    found = remaining(lake, Topics(t=topic), source)
    assert all(step.stop == slice_.stop and step.topic_id == topic.id for step, slice_ in found)
    return [(slice_.partition, step.start, slice_.start, slice_.stop) for step, slice_ in found]


def test_a_run_begins_where_the_lake_ends(lake: Lake) -> None:
    topic = extent([0, 5], [100, 50])
    assert left(lake, topic) == [(0, None, 0, 100), (1, None, 5, 50)]
    archived(lake, None, 40)
    assert left(lake, topic) == [(0, 40, 40, 100), (1, None, 5, 50)]
    assert left(lake, topic, start="latest") == [(0, 40, 40, 100), (1, None, 50, 50)]
    assert left(lake, topic, start="2026-01-01T00:00:00Z", end="60") == [(0, 40, 40, 60), (1, None, 7, 50)]
    assert left(lake, topic, end="30") == [(1, None, 5, 30)], "the first partition was archived further"
    archived(lake, 40, 100)
    archived(lake, None, 50, partition=1)
    assert left(lake, topic) == []


def test_what_is_gone_before_it_was_archived(lake: Lake) -> None:
    archived(lake, None, 40)
    with pytest.raises(OffsetOutOfRange, match="offsets 40 to 59 of t-0 are gone"):
        left(lake, extent([60], [100]))
    assert left(lake, extent([60], [100]), failOnDataLoss=False) == [(0, 40, 60, 100)]
    assert left(lake, extent([60], [60]), failOnDataLoss=False) == [(0, 40, 60, 60)]


def test_a_topic_that_is_another_one_or_lost_its_end(lake: Lake) -> None:
    archived(lake, None, 40)
    with pytest.raises(OffsetOutOfRange, match="created again"):
        left(lake, extent([0], [100], id=4))
    assert left(lake, extent([0], [100], id=4), failOnDataLoss=False) == [(0, None, 0, 100)]
    with pytest.raises(OffsetOutOfRange, match="the partition ends at 30 now"):
        left(lake, extent([0], [30]))
    assert left(lake, extent([0], [30]), failOnDataLoss=False) == []


def test_a_lake_of_last_values_takes_no_archive(lake: Lake) -> None:
    lake.put_last_values("t", [], {})
    with pytest.raises(InvalidRequest, match="has the last values of 't'"):
        left(lake, extent([0], [1]))


@settings(max_examples=40, deadline=None)
@given(
    ends=st.lists(st.integers(0, 2000), min_size=1, max_size=4),
    commit_mib=st.integers(8, 300),
    cores=st.integers(1, 5),
)
def test_rounds_have_every_offset_once_and_go_on_from_each_other(
    ends: list[int], commit_mib: int, cores: int
) -> None:
    slices = [Slice("t", number, 0, stop, 3, size_bytes=stop * MIB // 4) for number, stop in enumerate(ends)]
    whole = [(Advance("t", 3, slice_.partition, None, slice_.stop), slice_) for slice_ in slices]
    reached: dict[int, int | None] = dict.fromkeys(range(len(ends)))
    seen: dict[int, set[int]] = {number: set() for number in range(len(ends))}
    for each in rounds(whole, Topics(), cores=cores, commit_bytes=commit_mib * MIB):
        slices = [slice_ for group in each.tasks for slice_ in group]
        assert all(slice_.log == "completed" for slice_ in slices)
        for slice_ in slices:
            offsets = set(range(slice_.start, slice_.stop))
            assert not offsets & seen[slice_.partition]
            seen[slice_.partition] |= offsets
        for step in each.advances:
            assert step.start == reached[step.partition]
            assert seen[step.partition] == set(range(step.stop))
            reached[step.partition] = step.stop
    assert [len(offsets) for offsets in seen.values()] == ends
    assert all(reached[number] == stop for number, stop in enumerate(ends))


def test_times_of_a_file_are_in_its_statistics(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    day = (moment.date() - datetime(1970, 1, 1, tzinfo=UTC).date()).days
    lake = open_lake(tmp_path, create=True)
    with SliceFiles(store(tmp_path), LakeFile("t", "", 0, 0, 9, "x"), FORM) as files:
        files.add(rows([0, 8], [day, day]))
        written = files.finish()
    lake.commit(written, [Advance("t", 3, 0, None, 9)], {})
    assert lake.files() == written
