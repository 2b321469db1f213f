"""`archive`: topics into a lake. Workers read frames and write Parquet; Spark plans, schedules and retries.

A run goes on where the table says that each partition ends. It commits the files of a round and the new positions at
once, so a run that is killed or repeated neither doubles nor misses a message.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver.system.randomness import SystemRandomness
from quiver_spark.catalogue import Catalogue, open_catalogue
from quiver_spark.failures import spark_failures
from quiver_spark.frames import read_slice
from quiver_spark.jobs.archive_plan import COMMIT_BYTES, Round, remaining, rounds
from quiver_spark.jobs.archive_types import columns_of_values
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.json_columns import JsonColumns
from quiver_spark.lake.parquet_file import COMPRESSIONS, DEFAULT_COMPRESSION
from quiver_spark.lake.schema import STORED_SCHEMA
from quiver_spark.lake.slice_files import SliceFiles
from quiver_spark.lake.table import Lake, open_lake
from quiver_spark.options import ReadOptions
from quiver_spark.progress import Bar, Stopwatch, Summary, progress_bar
from quiver_spark.ranges import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_COLUMNS = (
    "topic string, date string, partition int, start bigint, stop bigint, attempt string, rows bigint,"
    " size_bytes bigint, first_offset bigint, last_offset bigint, min_time_us bigint, max_time_us bigint"
)
"""What tasks answer: a row for each file they wrote."""
_FILE_SCHEMA = pa.schema(
    [
        (name, {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}[kind])
        for name, kind in (column.split() for column in FILE_COLUMNS.split(","))
    ]
)
_ATTEMPT_BYTES = 6


class ArchiveTask(NamedTuple):
    """What the workers need to know; goes to them as it is."""

    root: str
    options: ReadOptions
    compression: str
    typed: JsonColumns | None

    def write(self, pieces: Sequence[Slice]) -> Iterator[LakeFile]:
        """Writes slices one after the other; every attempt has files of its own."""
        attempt = SystemRandomness().token(_ATTEMPT_BYTES).hex()
        schema = self.typed.extended(STORED_SCHEMA) if self.typed else STORED_SCHEMA
        for piece in pieces:
            common = LakeFile(piece.topic, "", piece.partition, piece.start, piece.stop, attempt)
            with SliceFiles(Path(self.root), common, schema, self.compression) as files:
                for batch in read_slice(piece, self.options, STORED_SCHEMA.names):
                    files.add(self.typed.beside(batch) if self.typed else batch)
                yield from files.finish()


def run(
    spark: "SparkSession",
    options: ReadOptions,
    lake: str | Path,
    *,
    schema: str | None = None,
    infer_schema: bool = False,
    compression: str = DEFAULT_COMPRESSION,
    compact_small_files: bool = False,
    commit_bytes: int = COMMIT_BYTES,
    show_progress: bool | None = None,
) -> Summary:
    """Archives what the options name from where the lake has it up to; `start` is for partitions it has nothing of.

    `schema` (DDL or JSON of Spark) or `infer_schema` gives fields of JSON values columns of their own.
    TransactionConflict when another run was faster: nothing is double then, and nothing is missing once it runs again.
    """
    if compression not in COMPRESSIONS:
        raise InvalidRequest(problem=f"compression {compression!r} is not one of {', '.join(COMPRESSIONS)}")
    watch, table = Stopwatch(), open_lake(lake, create=True)
    catalogue = open_catalogue(options)
    try:
        left = remaining(table, catalogue, options)
        typed = columns_of_values(table, [piece for _, piece in left], options, schema, infer=infer_schema)
        if typed is not None:
            table.add_columns(typed.columns)
        task = ArchiveTask(str(table.root), options, compression, typed)
        planned = rounds(left, catalogue, cores=_cores(spark), commit_bytes=commit_bytes)
        with progress_bar("archive", sum(piece.offsets for _, piece in left), wanted=show_progress) as bar:
            files = [file for each in planned for file in _archive(spark, table, each, task, bar)]
    finally:
        catalogue.close()
    details: dict[str, Any] = {"topics": sorted({step.topic for step, _ in left}), "version": table.version}
    if compact_small_files:
        from quiver_spark.jobs.small_files import join_small_files

        details["files_joined"] = join_small_files(spark, table, compression=compression)
    return Summary(
        job="archive",
        rows=sum(file.rows for file in files),
        files=len(files),
        bytes=sum(file.size_bytes for file in files),
        seconds=watch.seconds(),
        details=details,
    )


def _archive(spark: "SparkSession", table: Lake, each: Round, task: ArchiveTask, bar: Bar) -> list[LakeFile]:
    """One round: files by the workers, then one commit. If it is refused, its files go."""
    with bar.watch(spark, each.offsets):
        files = on_workers(spark, each.tasks, task.write)
    try:
        table.commit(files, each.advances, {"job": "archive", "rows": sum(file.rows for file in files)})
    except Exception:
        for file in files:
            (table.root / file.path).unlink(missing_ok=True)
        raise
    return files


def on_workers(
    spark: "SparkSession", tasks: Sequence[Any], write: Callable[[Any], Iterable[LakeFile]]
) -> list[LakeFile]:
    """Each of the tasks in a Spark task of its own; the files that those wrote whose answer came first."""
    if not tasks:
        return []

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = list(write(tasks[number]))
                yield pa.RecordBatch.from_pylist([file._asdict() for file in files], schema=_FILE_SCHEMA)

    with spark_failures("the archive"):
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        rows = numbers.mapInArrow(answers, FILE_COLUMNS).collect()
    return [LakeFile(**row.asDict()) for row in rows]


def _cores(spark: "SparkSession") -> int:
    return spark.sparkContext.defaultParallelism


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline archive`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("archive", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
