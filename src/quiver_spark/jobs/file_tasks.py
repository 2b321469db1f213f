"""Tasks that write files of the lake: one Spark task each, which returns the files it wrote."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from quiver_spark.lake.files import LakeFile
from quiver_spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
FILE_COLUMNS = (
    "topic string, date string, partition int, start bigint, stop bigint, attempt string, rows bigint,"
    " size_bytes bigint, first_offset bigint, last_offset bigint, min_time_us bigint, max_time_us bigint,"
    " min_append_us bigint, max_append_us bigint, topic_id bigint, layout string"
)
"""What a task returns: a row for each file it wrote."""
_FILE_SCHEMA = pa.schema(
    [
        (name, {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}[kind])
        for name, kind in (column.split() for column in FILE_COLUMNS.split(","))
    ]
)


def on_workers(
    spark: "SparkSession", tasks: Sequence[Task], write: Callable[[Task], Iterable[LakeFile]], what: str
) -> list[LakeFile]:
    """Runs each task in a Spark task of its own; returns the files of the attempts whose result came first."""
    if not tasks:
        return []

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield answer_batch(list(write(tasks[number])))

    with spark_failures(what):
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        rows = numbers.mapInArrow(answers, FILE_COLUMNS).collect()
    return [LakeFile(**row.asDict()) for row in rows]


def answer_batch(files: Sequence[LakeFile]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([file._asdict() for file in files], schema=_FILE_SCHEMA)
