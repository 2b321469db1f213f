"""Which files an ingest reads, and in which batches."""

from pathlib import Path

import pytest

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.ingest.done import commit_key
from quiver_spark.jobs.ingest.files import SourceFile, batches, found_files, remaining
from quiver_spark.jobs.ingest.table import Table


def test_directories_and_patterns(tmp_path: Path) -> None:
    for name in ("a.json", "b.csv.gz", "deep/c.parquet", ".hidden.json", "_half/d.json", "e.json.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = found_files([str(tmp_path), str(tmp_path / "*.json"), f"file://{tmp_path}/a.json"])
    assert [(Path(file.path).name, file.format) for file in found] == [
        ("a.json", "json"),
        ("b.csv.gz", "csv"),
        ("c.parquet", "parquet"),
    ]
    assert [file.format for file in found_files([str(tmp_path / "?.json")], "text")] == ["text"]


def file(path: str, size: int = 10, mtime: int = 1, format_: str = "json") -> SourceFile:
    return SourceFile(path, size, mtime, format_)


def test_what_is_left() -> None:
    files, done = [file("a"), file("b", mtime=2), file("c")], {"a": "10-1", "b": "10-1"}
    with pytest.raises(InvalidRequest, match="b was changed"):
        remaining(files, done, "error")
    assert [each.path for each in remaining(files, done, "skip")] == ["c"]
    assert [each.path for each in remaining(files, done, "again")] == ["b", "c"]


def test_batches_have_one_format_and_a_size() -> None:
    files = [file("a"), file("b"), file("c", 100), file("d", format_="csv"), file("e")]
    assert [[each.path for each in batch] for batch in batches(files, most_bytes=25)] == [
        ["d"],
        ["a", "b"],
        ["c"],
        ["e"],
    ]
    assert [len(batch) for batch in batches(files, most_files=2)] == [1, 2, 2]


def test_keys_are_those_of_what_is_written() -> None:
    assert commit_key("t", {"a": {"version": "1"}}) == commit_key("t", {"a": {"version": "1"}})
    assert commit_key("t", {"a": {"version": "1"}}) != commit_key("t", {"a": {"version": "2"}})


def test_a_table_is_known_without_its_password() -> None:
    assert Table("jdbc:x://db/shop?password=p", "orders", "id").place == "jdbc:x://db/shop#orders#id"
    assert Table("jdbc:derby:db;password=p", "orders", "id").place == "jdbc:derby:db#orders#id"
