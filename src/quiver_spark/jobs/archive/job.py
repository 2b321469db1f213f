"""`archive`: topics into a lake. Workers read frames and write Parquet; Spark plans, schedules and retries.

A run continues at the positions in the table. It commits the files of a round together with the new positions, so a
run that is killed or repeated neither duplicates nor misses a message.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.system.randomness import SystemRandomness
from quiver_spark.jobs.archive.plan import COMMIT_BYTES, Round, remaining, rounds
from quiver_spark.jobs.archive.value_columns import check_schema_choice, columns_of_values
from quiver_spark.jobs.arguments import SessionOrFactory, batch_read_options, started
from quiver_spark.jobs.file_tasks import on_workers
from quiver_spark.jobs.progress import Bar, Summary, progress_bar
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.json_columns import JsonColumns
from quiver_spark.lake.opening import LakeSettings, open_lake
from quiver_spark.lake.parquet_file import COMPRESSIONS, DEFAULT_COMPRESSION, FileForm
from quiver_spark.lake.schema import FRAME_SCHEMA, with_topic_id
from quiver_spark.lake.slice_files import SliceFiles
from quiver_spark.lake.storage.place import LakePlace, lake_place
from quiver_spark.lake.storage.store import open_store
from quiver_spark.lake.table import Lake
from quiver_spark.runtime.cluster import cores
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.catalogue import chosen_extents, open_catalogue
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATTEMPT_BYTES = 6


class ArchiveTask(NamedTuple):
    """What the workers need; sent to them as it is."""

    place: LakePlace
    layout: str
    form: FileForm
    options: ReadOptions
    typed: JsonColumns | None

    def write(self, slices: Sequence[Slice]) -> Iterator[LakeFile]:
        """Writes slices one after the other; every attempt has files of its own."""
        attempt = SystemRandomness().token(_ATTEMPT_BYTES).hex()
        store = open_store(self.place)
        for slice_ in slices:
            place = (slice_.topic, "", slice_.partition, slice_.start, slice_.stop)
            common = LakeFile(*place, attempt, topic_id=slice_.topic_id, layout=self.layout)
            with SliceFiles(store, common, self.form) as files:
                for frames in read_slice(slice_, self.options, FRAME_SCHEMA.names):
                    batch = with_topic_id(frames, slice_.topic_id)
                    files.add(self.typed.extend_batch(batch) if self.typed else batch)
                yield from files.finish()


def run(
    spark: SessionOrFactory,
    source: ReadOptions | Mapping[str, object],
    lake: str | Path,
    *,
    settings: LakeSettings | None = None,
    schema: str | None = None,
    infer_schema: bool = False,
    compression: str = DEFAULT_COMPRESSION,
    compact_small_files: bool = False,
    commit_bytes: int = COMMIT_BYTES,
    show_progress: bool | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Summary:
    """Archives topics, each partition from its position in the lake.

    `source` has the options of a batch read, by their names: `{"topic": "orders", "bootstrap": "host:7481"}`; its
    `start` is for partitions of which the lake has nothing. `schema` (Spark's DDL or JSON) or `infer_schema` gives
    fields of JSON values columns of their own. `settings` are for a lake that is created. A run for which `stop`
    returns true ends after the commit that it is at. Raises TransactionConflict if another run committed first:
    nothing is duplicated then, and nothing is missing after a repeat.
    """
    if compression not in COMPRESSIONS:
        raise InvalidRequest(problem=f"compression {compression!r} is not one of {', '.join(COMPRESSIONS)}")
    check_schema_choice(schema, infer=infer_schema)
    options = batch_read_options(source)
    place = lake_place(lake)
    catalogue = open_catalogue(options)
    try:
        chosen = chosen_extents(catalogue, options)
        table = open_lake(place, create=True, settings=settings)
        left = remaining(table, catalogue, options)
        if not (left or schema or infer_schema or compact_small_files):
            table.add_topic_ids()
            lines = [] if chosen else [f"no topic has a name that matches {options.pattern!r}"]
            return Summary(job="archive", details={"topics": [], "version": table.version}, lines=lines)
        spark, watch = started(spark), Stopwatch()
        typed = columns_of_values(
            table, catalogue, [slice_ for _, slice_ in left], options, schema=schema, infer=infer_schema
        )
        table.add_topic_ids()
        if typed is not None:
            table.add_columns(typed.columns)
        form = FileForm(table.file_schema(typed.columns if typed else None), compression)
        task = ArchiveTask(table.place, table.layout, form, options, typed)
        planned = rounds(left, catalogue, cores=cores(spark), commit_bytes=commit_bytes)
        with progress_bar("archive", sum(slice_.offsets for _, slice_ in left), wanted=show_progress) as bar:
            wanted = itertools.takewhile(lambda _: not stop(), planned)
            files = [file for each in wanted for file in _archive(spark, table, each, task, bar)]
    finally:
        catalogue.close()
    details: dict[str, Any] = {"topics": sorted({step.topic for step, _ in left}), "version": table.version}
    if compact_small_files:
        from quiver_spark.jobs.optimize.job import join_small_files

        joined = join_small_files(spark, table, compression=compression, show_progress=show_progress)
        details |= {"files_joined": joined, "version": table.version}
    return Summary(
        job="archive",
        rows=sum(file.rows for file in files),
        files=len(files),
        bytes=sum(file.size_bytes for file in files),
        seconds=watch.seconds(),
        details=details,
    )


def _archive(spark: "SparkSession", table: Lake, each: Round, task: ArchiveTask, bar: Bar) -> list[LakeFile]:
    """One round: workers write files, then one commit. If it is refused, its files are removed."""
    with bar.watch(spark, each.offsets):
        files = on_workers(spark, each.tasks, task.write, "the archive")
    table.commit(files, each.advances, {"job": "archive", "rows": sum(file.rows for file in files)})
    return files


def main(argv: list[str]) -> int:
    """The command line without `quiver pipeline archive`; returns the exit status."""
    from quiver_spark.jobs.command_line import run_command

    return run_command("archive", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
