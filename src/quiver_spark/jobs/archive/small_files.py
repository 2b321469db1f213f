"""Joins many small files of the lake into fewer large ones, with the same messages."""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from quiver.model.limits import MIB
from quiver.system.files import Files
from quiver.system.randomness import SystemRandomness
from quiver_spark.jobs.file_tasks import on_workers
from quiver_spark.jobs.progress import progress_bar
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.parquet_file import ParquetFile
from quiver_spark.lake.table import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
TARGET_BYTES = 128 * MIB
_BATCH_ROWS = 32_768
_ATTEMPT_BYTES = 6


def bins(files: Sequence[LakeFile], *, target_bytes: int = TARGET_BYTES) -> list[tuple[LakeFile, ...]]:
    """Which files are joined: neighbours of one partition and date that fit the target together. Pure.

    Nothing of the date lies between two neighbours, so one range from the first to the last says as much as theirs.
    Files of topics that had the same name one after the other stay apart; where their ids are not known, overlapping
    ranges show it.
    """
    found = []
    in_order = sorted(files, key=lambda file: (*_home(file), file.start))
    for _, neighbours in groupby(in_order, key=_home):
        found += [group for group in _filled(neighbours, target_bytes) if len(group) > 1]
    return found


def _home(file: LakeFile) -> tuple[str, int, int, str]:
    """Files with the same may be joined."""
    return file.topic, -1 if file.topic_id is None else file.topic_id, file.partition, file.date


def _filled(files: Iterator[LakeFile], target_bytes: int) -> Iterator[tuple[LakeFile, ...]]:
    group: tuple[LakeFile, ...] = ()
    for file in files:
        is_large = sum(each.size_bytes for each in group) + file.size_bytes > target_bytes
        if group and (is_large or file.start < group[-1].stop):
            yield group
            group = ()
        group += (file,)
    if group:
        yield group


def join_small_files(
    spark: "SparkSession",
    lake: Lake,
    *,
    compression: str,
    target_bytes: int = TARGET_BYTES,
    show_progress: bool | None = None,
) -> int:
    """Returns how many files were replaced. Raises TransactionConflict if another run did the same at the same
    time."""
    groups = [group for group in bins(lake.files(), target_bytes=target_bytes) if _is_whole(lake, group)]
    if not groups:
        return 0
    old = [file for group in groups for file in group]
    task = JoinTask(str(lake.root), compression, lake.schema())
    rows = sum(file.rows for file in old)
    with progress_bar("join small files", rows, wanted=show_progress) as bar, bar.watch(spark, rows):
        new = on_workers(spark, groups, task.write, "joining small files")
    lake.replace(old, new, {"job": "small files", "removed": len(old), "added": len(new)})
    return len(old)


def _is_whole(lake: Lake, group: Sequence[LakeFile]) -> bool:
    """Whether all files of a group are there. One that is lost keeps its group from being joined, and no other."""
    lost = [file.path for file in group if not (lake.root / file.path).is_file()]
    for path in lost:
        _logger.warning("the lake in %s has lost %s: files beside it are not joined", lake.root, path)
    return not lost


class JoinTask(NamedTuple):
    """What the workers need; sent to them as it is."""

    root: str
    compression: str
    schema: pa.Schema
    """Of the table."""

    def write(self, group: Sequence[LakeFile]) -> Iterator[LakeFile]:
        root, first, last = Path(self.root), group[0], group[-1]
        attempt = SystemRandomness().token(_ATTEMPT_BYTES).hex()
        place = (first.topic, first.date, first.partition, first.start, last.stop)
        common = LakeFile(*place, attempt, topic_id=first.topic_id)
        schema = self._stored(group)
        joined = ParquetFile(root, common, schema, self.compression)
        try:
            for file in group:
                for batch in pq.ParquetFile(root / file.path).iter_batches(_BATCH_ROWS):
                    joined.add(_with_columns(batch, schema))
            done = joined.close(last.stop)
        except BaseException:
            joined.abandon()
            raise
        Files().sync_directory((root / done.path).parent)
        yield done

    def _stored(self, group: Sequence[LakeFile]) -> pa.Schema:
        """The columns that any of the files has."""
        names = {name for file in group for name in pq.read_schema(Path(self.root) / file.path).names}
        return pa.schema([field for field in self.schema if field.name in names])


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with null in the columns that it lacks."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
