"""The table of a lake in each format: positions and files in one commit, and two commits at once."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from quiver.model.errors import InvalidRequest, QuiverError, TransactionConflict
from quiver_spark.lake.files import PARTITION_COLUMNS, LakeFile
from quiver_spark.lake.opening import lake_settings, open_lake
from quiver_spark.lake.schema import OLDEST_SCHEMA
from quiver_spark.lake.storage.place import lake_place
from quiver_spark.lake.table import Advance, Lake
from quiver_spark.lake.tables.iceberg_catalog import iceberg_catalog
from quiver_spark.lake.tables.table_format import Change, CommitConflict


@pytest.fixture(params=["delta", "iceberg"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    open_lake(tmp_path, create=True, settings=lake_settings(request.param))
    return tmp_path


def written(root: Path, start: int, stop: int, attempt: str = "") -> LakeFile:
    """A file as it were; the table looks into none."""
    name = attempt or f"a{start}"
    file = LakeFile("t", "2026-01-31", 0, start, stop, name, stop - start, 5, start, stop - 1, 0, 1_000)
    (root / file.path).parent.mkdir(parents=True, exist_ok=True)
    (root / file.path).write_bytes(b"12345")
    return file


def step(start: int | None, stop: int) -> list[Advance]:
    return [Advance("t", 3, 0, start, stop)]


def test_files_and_positions_come_together(root: Path) -> None:
    lake = open_lake(root)
    assert lake.position("t", 3, 0) is None
    assert lake.topic_id("t") is None
    first = written(root, 0, 100)
    lake.commit([first], step(None, 100), {"rows": 100})
    again = open_lake(root)
    assert again.files() == [first]
    assert (again.position("t", 3, 0), again.position("t", 4, 0), again.topic_id("t")) == (100, None, 3)


def test_delta_says_what_a_commit_was(tmp_path: Path) -> None:
    lake = open_lake(tmp_path, create=True)
    lake.commit([written(tmp_path, 0, 100)], step(None, 100), {"rows": 100})
    assert DeltaTable(str(tmp_path)).history(1)[0]["quiver"] == {"rows": 100}


def test_a_lake_of_an_earlier_version_gets_the_ids_of_topics(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=OLDEST_SCHEMA, partition_by=list(PARTITION_COLUMNS))
    lake = open_lake(tmp_path)
    old = written(tmp_path, 0, 100)
    lake.commit([old], step(None, 100), {})
    assert lake.files() == [old]
    lake.add_topic_ids()
    lake.add_topic_ids()
    new = written(tmp_path, 100, 150)._replace(topic_id=3)
    (tmp_path / new.path).write_bytes(b"12345")
    lake.commit([new], step(100, 150), {})
    again = open_lake(tmp_path)
    assert [file.topic_id for file in again.files()] == [None, 3]
    assert "topic_id" in again.schema().names


def test_positions_outlast_checkpoints(tmp_path: Path) -> None:
    root, lake = tmp_path, open_lake(tmp_path, create=True)
    lake.commit([], [Advance("u", 9, 1, None, 7)], {})
    lake.commit([written(root, 0, 100)], step(None, 100), {})
    DeltaTable(str(root)).create_checkpoint()
    for commit in (root / "_delta_log").glob("*.json"):
        commit.unlink()
    assert open_lake(root).position("t", 3, 0) == 100
    assert [file.stop for file in open_lake(root).files()] == [100]
    assert open_lake(root).position("u", 9, 1) == 7


def test_the_second_of_two_runs_adds_nothing(root: Path) -> None:
    one, other = open_lake(root), open_lake(root)
    one.commit([written(root, 0, 100)], step(None, 100), {})
    loser = written(root, 0, 90)
    with pytest.raises(TransactionConflict, match="run it again"):
        other.commit([loser], step(None, 90), {})
    assert not (root / loser.path).exists()
    assert [file.stop for file in open_lake(root).files()] == [100]


def test_runs_that_commit_at_the_same_moment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither has seen the other's commit when it looked: the table refuses the second."""
    one, other = open_lake(root), open_lake(root)
    monkeypatch.setattr(Lake, "refresh", lambda self: None)
    one.commit([written(root, 0, 100)], step(None, 100), {})
    loser = written(root, 0, 90)
    with pytest.raises(TransactionConflict):
        other.commit([loser], step(None, 90), {})
    assert not (root / loser.path).exists()


def test_other_topics_do_not_conflict(root: Path) -> None:
    one, other = open_lake(root), open_lake(root)
    one.commit([], step(None, 100), {})
    other.commit([], [Advance("u", 4, 0, None, 5)], {})
    assert open_lake(root).position("t", 3, 0) == 100
    assert open_lake(root).position("u", 4, 0) == 5


def test_small_files_are_replaced_once(root: Path) -> None:
    lake = open_lake(root)
    small = [written(root, 0, 50), written(root, 50, 100)]
    lake.commit(small, step(None, 100), {})
    one, other = open_lake(root), open_lake(root)
    joined, loser = written(root, 0, 100, "joined"), written(root, 0, 100, "loser")
    (root / small[0].path).write_bytes(b"12345")
    one.replace(one.files(), [joined], {})
    with pytest.raises(TransactionConflict):
        other.replace(other.files(), [loser], {})
    assert open_lake(root).files() == [joined]
    assert open_lake(root).position("t", 3, 0) == 100


def test_an_archive_goes_on_while_small_files_are_joined(root: Path) -> None:
    lake = open_lake(root)
    lake.commit([written(root, 0, 50), written(root, 50, 100)], step(None, 100), {})
    joining, old = open_lake(root), open_lake(root).files()
    more = written(root, 100, 150)
    open_lake(root).commit([more], step(100, 150), {})
    joined = written(root, 0, 100, "joined")
    joining.replace(old, [joined], {})
    assert open_lake(root).files() == [joined, more]


def test_what_does_not_count_is_removed(root: Path) -> None:
    lake = open_lake(root)
    kept, orphan = written(root, 0, 50), written(root, 50, 100)
    lake.commit([kept], step(None, 50), {})
    assert lake.vacuum(1) == [], "it is younger than that"
    assert lake.vacuum(0) == [orphan.path]
    assert (root / kept.path).exists()
    assert not (root / orphan.path).exists()


def test_columns_are_added_and_never_change(root: Path) -> None:
    lake = open_lake(root)
    lake.add_columns(pa.schema([("amount", pa.float64()), ("tags", pa.list_(pa.string()))]))
    lake.add_columns(pa.schema([("amount", pa.float64()), ("tags", pa.list_(pa.string())), ("n", pa.int64())]))
    assert open_lake(root).schema().names[-3:] == ["amount", "tags", "n"]
    with pytest.raises(InvalidRequest, match="column 'amount' of type double, not string"):
        lake.add_columns(pa.schema([("amount", pa.string())]))


def test_an_archive_is_no_place_for_last_values(root: Path) -> None:
    lake = open_lake(root)
    lake.check_last_values("t")
    lake.commit([], step(None, 10), {})
    with pytest.raises(InvalidRequest, match="has the archive of 't'"):
        lake.check_last_values("t")


def test_directories_that_are_no_lakes(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no lake in"):
        open_lake(tmp_path / "none")
    for text, says in {"ftp://host/lake": "neither a directory nor in a store", "s3:///x": "names no bucket"}.items():
        with pytest.raises(InvalidRequest, match=says):
            open_lake(text, create=True)
    write_deltalake(str(tmp_path / "other"), pa.table({"a": [1]}))
    with pytest.raises(InvalidRequest, match="was not made by quiver"):
        open_lake(f"file://{tmp_path}/other")


def test_a_commit_whose_response_was_lost_counts_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store did the work, and the repeated request met its own commit: the files must not be removed."""
    lake = open_lake(root)
    write = type(lake._table).write

    def lose_the_response(self: Any, change: Change) -> None:
        write(self, change)
        raise CommitConflict("it is there already")

    def time_out(self: Any, change: Change) -> None:
        write(self, change)
        raise QuiverError("no response")

    for number, way in enumerate((lose_the_response, time_out)):
        monkeypatch.setattr(type(lake._table), "write", way)
        start = number * 100
        lake.commit([written(root, start, start + 100)], step(start or None, start + 100), {})
    lake.replace(lake.files(), [joined := written(root, 0, 200, "joined")], {})
    assert open_lake(root).files() == [joined]
    assert (root / joined.path).exists()


def test_other_partition_columns(tmp_path: Path) -> None:
    for format, columns in (("delta", "date,partition"), ("iceberg", "partition"), ("delta", "topic")):
        place = tmp_path / f"{format}-{columns}"
        asked = lake_settings(format, columns)
        lake = open_lake(place, create=True, settings=asked)
        file = written(place, 0, 5)._replace(layout=lake.layout, topic="a.b-2026", topic_id=3)
        (place / file.path).parent.mkdir(parents=True, exist_ok=True)
        (place / file.path).write_bytes(b"12345")
        lake.commit([file], step(None, 5), {})
        assert open_lake(place).files() == [file]
        assert ("topic" in lake.file_schema().names) == (format == "iceberg" or "topic" not in columns)
        with pytest.raises(InvalidRequest, match="is partitioned by"):
            open_lake(place, settings=lake_settings(partition_by="topic,date"))
        with pytest.raises(InvalidRequest, match=f"has the format {format}"):
            open_lake(place, settings=lake_settings("iceberg" if format == "delta" else "delta"))
    for wrong in ("offset", "date,date", ""):
        with pytest.raises(InvalidRequest, match="name some of topic, date, partition"):
            lake_settings(partition_by=wrong)


def test_iceberg_needs_a_catalog_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(InvalidRequest, match="needs a catalog"):
        iceberg_catalog(lake_place("s3://bucket/lake"), None)
    with pytest.raises(InvalidRequest, match="PYICEBERG_CATALOG__PROD__URI"):
        iceberg_catalog(lake_place("s3://bucket/lake"), "prod")


def test_settings_stay_out_of_sight() -> None:
    place = lake_place("s3a://bucket/lake/", {"AWS_SECRET_ACCESS_KEY": "hidden", "HOME": "/root"})
    assert (str(place), place.setting("AWS_SECRET_ACCESS_KEY")) == ("s3://bucket/lake", "hidden")
    assert "hidden" not in f"{place!r} {place}"
    assert place.setting("HOME") is None
