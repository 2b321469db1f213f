"""Compares the messages of the log with those in a file of the lake, column by column."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quiver.model.errors import CorruptData, OffsetOutOfRange
from quiver_spark.jobs.audit.finding import Finding, Findings, Kind
from quiver_spark.jobs.audit.lake.checks import ArchivedPartition, Span, offset_findings
from quiver_spark.jobs.audit.lake.counts import after_error
from quiver_spark.lake.files import LakeFile, date_of
from quiver_spark.lake.slice_files import by_day
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import open_store
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

COMPARED = ("timestamp", "append_time", "key", "value", "priority")
_COLUMNS = ("offset", *COMPARED)
_BATCH_ROWS = 32_768
_Integers = npt.NDArray[np.int64]


class CompareTask(NamedTuple):
    """A file of the lake and the slice of the log that it was made from."""

    archived: ArchivedPartition
    file: LakeFile
    place: LakePlace
    slice: Slice
    options: ReadOptions
    limit: int

    def answer(self) -> Findings:
        unknown: list[Span] = []
        log = _dated(_readable(self.slice, self.options, unknown), self.file.date)
        findings = Findings(limit=self.limit)
        try:
            findings.add_all(self._differences(log, unknown))
        except FileNotFoundError:
            return findings
        except (OSError, pa.ArrowException) as error:
            sentence = f"the file cannot be read ({str(error).partition(chr(10))[0]})"
            span = (self.file.first_offset, self.file.last_offset)
            where = (self.file.topic, self.file.partition)
            findings.add(Finding(*where, "lake-file", *span, sentence, self.file.path))
        return findings

    def _differences(self, log: Iterator[pa.RecordBatch], unknown: list[Span]) -> Iterator[Finding]:
        waiting: list[pa.RecordBatch] = []
        with pq.ParquetFile(open_store(self.place).source(self.file.path)) as file:
            for rows in _by_offset(file):
                last = rows.column("offset")[-1].as_py()
                stored, waiting = _up_to(log, waiting, last)
                yield from self._compared(stored, rows, unknown)
        stored, _ = _up_to(log, waiting, None)
        yield from self._compared(stored, None, unknown)

    def _compared(self, stored: pa.Table | None, archived: pa.Table | None, unknown: list[Span]) -> Iterator[Finding]:
        """What differs between rows of the log and of the file; both are in order."""
        ours, theirs = _offsets(stored), _offsets(archived)
        both = ours
        if not np.array_equal(ours, theirs):
            yield from self._unequal(ours, theirs, unknown)
            both, at, there = np.intersect1d(ours, theirs, return_indices=True)
            stored = None if stored is None else stored.take(pa.array(at))
            archived = None if archived is None else archived.take(pa.array(there))
        if stored is None or archived is None:
            return
        for name in COMPARED:
            differs = _differs(stored.column(name), archived.column(name))
            if differs.any():
                yield from self._of(
                    "lake-content", both[differs], f"{name} is not the same in the log and in the file"
                )

    def _unequal(self, ours: _Integers, theirs: _Integers, unknown: list[Span]) -> Iterator[Finding]:
        yield from self._of("lake-missing", np.setdiff1d(ours, theirs), "in the log and not in the file")
        yield from self._of("lake-extra", theirs[1:][theirs[1:] == theirs[:-1]], "twice in the file")
        if self.archived.is_compacted:
            return
        extra = np.setdiff1d(theirs[(theirs >= self.slice.start) & (theirs < self.slice.stop)], ours)
        for start, stop in unknown:
            extra = extra[(extra < start) | (extra >= stop)]
        yield from self._of("lake-extra", extra, "in the file and not in the log")

    def _of(self, kind: Kind, offsets: _Integers, sentence: str) -> Iterator[Finding]:
        return offset_findings(self.archived, kind, offsets.tolist(), sentence, self.file)


def _by_offset(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows in order of offset. A file with another order is read as a whole."""
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    order = groups[0].sorting_columns if groups else ()
    if order and file.schema.names[order[0].column_index] != "offset":
        rows = file.read(columns=list(_COLUMNS)).select(_COLUMNS).sort_by("offset")
        yield from (pa.Table.from_batches([batch]) for batch in rows.to_batches(_BATCH_ROWS))
        return
    for batch in file.iter_batches(_BATCH_ROWS, columns=list(_COLUMNS)):
        yield pa.Table.from_batches([batch]).select(_COLUMNS)


def _differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Row by row; null is the same as null."""
    same = pc.fill_null(pc.equal(one, other.cast(one.type)), False)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    found: npt.NDArray[np.bool_] = pc.invert(pc.or_(same, both_null)).to_numpy()
    return found


def _offsets(rows: pa.Table | None) -> _Integers:
    if rows is None:
        return np.zeros(0, np.int64)
    found: _Integers = rows.column("offset").to_numpy()
    return found


def _up_to(
    log: Iterator[pa.RecordBatch], waiting: list[pa.RecordBatch], last: int | None
) -> tuple[pa.Table | None, list[pa.RecordBatch]]:
    """The rows of the log up to an offset, and those that were read beyond it."""
    while last is None or not waiting or waiting[-1].column("offset")[-1].as_py() <= last:
        batch: Any = next(log, None)
        if batch is None:
            break
        waiting.append(batch)
    if not waiting:
        return None, []
    rows = pa.Table.from_batches(waiting)
    if last is None:
        return rows, []
    count = int(_offsets(rows).searchsorted(last, "right"))
    rest = rows.slice(count)
    return rows.slice(0, count), rest.to_batches() if rest.num_rows else []


def _readable(slice_: Slice, options: ReadOptions, unknown: list[Span]) -> Iterator[pa.RecordBatch]:
    """The messages of a slice; ranges that are damaged or gone are skipped and added to `unknown`."""
    offset = slice_.start
    while offset < slice_.stop:
        try:
            for batch in read_slice(slice_._replace(start=offset), options, _COLUMNS):
                yield batch
                offset = batch.column("offset")[-1].as_py() + 1
            return
        except (CorruptData, OffsetOutOfRange) as error:
            stop = after_error(error, slice_, offset)
            unknown.append((offset, stop))
            offset = stop


def _dated(batches: Iterator[pa.RecordBatch], date: str) -> Iterator[pa.RecordBatch]:
    """The rows of one date."""
    for batch in batches:
        for day, rows in by_day(batch):
            if date_of(day) == date:
                yield rows
