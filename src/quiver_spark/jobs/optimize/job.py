"""`optimize`: writes files of a lake again, with the same messages.

Small neighbours are joined. Rows may be sorted, and fields of JSON values may get columns that they did not have
when they were archived. Each round is one commit that replaces files, so a run that is killed changes nothing or a
whole round, and an archive may run meanwhile.
"""

import logging
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver.model.limits import MIB
from quiver_spark.jobs.archive.value_columns import check_schema_choice, read_schema
from quiver_spark.jobs.arguments import SessionOrFactory, started
from quiver_spark.jobs.optimize.bins import TARGET_BYTES, Group, bins, rounds
from quiver_spark.jobs.optimize.rewrite import RewriteTask, Rewritten
from quiver_spark.jobs.progress import Bar, Summary, progress_bar
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.json_columns import JsonColumns, check_fields
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.parquet_file import COMPRESSIONS, DEFAULT_COMPRESSION, FileForm
from quiver_spark.lake.table import Lake
from quiver_spark.runtime.small_results import on_workers
from quiver_spark.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
_ROUND_BYTES = 8192 * MIB


def run(
    spark: SessionOrFactory,
    lake: str | Path,
    *,
    topics: Collection[str] = (),
    sort_by: Sequence[str] = (),
    schema: str | None = None,
    compression: str = DEFAULT_COMPRESSION,
    target_bytes: int = TARGET_BYTES,
    show_progress: bool | None = None,
) -> Summary:
    """Joins small files of a lake, or of some topics in it.

    With `sort_by` or `schema` (Spark's DDL or JSON) all their files are written again: sorted by these columns, or
    with columns for these fields of JSON values.

    Raises TransactionConflict if another run replaced files at the same time: then this one changed nothing.
    """
    if compression not in COMPRESSIONS:
        raise InvalidRequest(problem=f"compression {compression!r} is not one of {', '.join(COMPRESSIONS)}")
    check_schema_choice(schema, infer=False)
    table = open_lake(lake)
    _check_topics(table, topics)
    typed = None
    spark, watch = started(spark), Stopwatch()
    if schema is not None:
        typed = JsonColumns(check_fields(read_schema(schema)))
        table.add_columns(typed.columns)
    _check_columns(table.schema(), sort_by)
    task = rewrite_task(table, compression=compression, sort_by=sort_by, typed=typed)
    files = [file for file in table.files() if not topics or file.topic in topics]
    groups = bins(files, target_bytes=target_bytes, singles=bool(sort_by or typed))
    return _rewrite_all(spark, table, groups, task, watch, show_progress)


def rewrite_task(
    lake: Lake, *, compression: str, sort_by: Sequence[str] = (), typed: JsonColumns | None = None
) -> RewriteTask:
    schema = lake.file_schema(lake.schema())
    return RewriteTask(lake.place, FileForm(schema, compression, tuple(sort_by) or ("offset",)), typed)


def join_small_files(
    spark: "SparkSession", lake: Lake, *, compression: str, show_progress: bool | None = None
) -> int:
    """Returns how many files were replaced. Raises TransactionConflict if another run did the same at the same
    time."""
    lake.refresh()
    groups = bins(lake.files())
    task = rewrite_task(lake, compression=compression)
    done = _rewrite_all(spark, lake, groups, task, Stopwatch(), show_progress)
    return int(done.details["files_replaced"])


def _rewrite_all(
    spark: "SparkSession",
    lake: Lake,
    groups: Sequence[Group],
    task: RewriteTask,
    watch: Stopwatch,
    show_progress: bool | None,
) -> Summary:
    new: list[LakeFile] = []
    old: list[LakeFile] = []
    unreadable: list[str] = []
    with progress_bar("optimize", _rows(groups), wanted=show_progress) as bar:
        for each in rounds(groups, _ROUND_BYTES):
            answers = _rewrite(spark, lake, each, task, bar)
            for group, answer in zip(each, answers, strict=True):
                if answer.new is not None:
                    old += group
                    new.append(answer.new)
                else:
                    unreadable.append(answer.bad)
    details: dict[str, Any] = {"files_replaced": len(old), "version": lake.version}
    if unreadable:
        details["files_unreadable"] = unreadable
    return Summary(
        job="optimize",
        rows=sum(file.rows for file in new),
        files=len(new),
        bytes=sum(file.size_bytes for file in new),
        seconds=watch.seconds(),
        details=details,
    )


def _rewrite(
    spark: "SparkSession", lake: Lake, groups: Sequence[Group], task: RewriteTask, bar: Bar
) -> list[Rewritten]:
    """One round. A file that cannot be read keeps its group as it is, and no other."""
    with bar.watch(spark, _rows(groups)):
        answers = on_workers(spark, groups, task.write, Rewritten, "writing files of the lake again")
    done = [(group, answer.new) for group, answer in zip(groups, answers, strict=True) if answer.new is not None]
    for answer in answers:
        if answer.bad:
            text = "the lake in %s has a file that cannot be read, %s (%s): it and its neighbours stay as they are"
            _logger.warning(text, lake.place, answer.bad, answer.problem)
    if done:
        old = [file for group, _ in done for file in group]
        lake.replace(old, [new for _, new in done], {"job": "optimize", "removed": len(old), "added": len(done)})
    return answers


def _rows(groups: Sequence[Group]) -> int:
    return sum(file.rows for group in groups for file in group)


def _check_topics(lake: Lake, topics: Collection[str]) -> None:
    known = {file.topic for file in lake.files()} if topics else set()
    for topic in topics:
        if topic not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InvalidRequest(problem=f"the lake in {lake.place} has no topic {topic!r}; it has {there}")


def _check_columns(schema: pa.Schema, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.names:
            raise InvalidRequest(
                problem=f"the lake has no column {name!r} to sort by; it has {', '.join(schema.names)}"
            )


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline optimize`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("optimize", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
