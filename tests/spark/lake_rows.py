"""The rows of a lake, read without Spark, as the SDK gives those of a topic."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.opening import open_lake
from spark.topic_rows import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lake_rows(lake: Path) -> list[Row]:
    """By topic, partition and offset; every row is in the directory of its date."""
    found = []
    for row in DeltaTable(str(lake)).to_pyarrow_table().to_pylist():
        assert row["date"] == row["timestamp"].astimezone(UTC).date()
        found.append(_row(row))
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def lake_files(lake: Path) -> list[LakeFile]:
    return open_lake(lake).files()


def parquet_paths(lake: Path) -> list[str]:
    """All files that are there, whether they count or not."""
    return [str(path.relative_to(lake)) for path in lake.rglob("*.parquet") if "_delta_log" not in path.parts]


def _row(row: dict[str, Any]) -> Row:
    headers = tuple(sorted(row["headers"] or ()))
    times = (_ms(row["timestamp"]), _ms(row["append_time"]))
    return Row(
        row["topic"], row["partition"], row["offset"], *times, row["key"], row["value"], headers, row["priority"]
    )


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
