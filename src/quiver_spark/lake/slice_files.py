"""The files that the messages of one slice are written to: one per date, a few open at a time."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from quiver.model.limits import MIB
from quiver_spark.lake.files import DAY_US, LakeFile, date_of
from quiver_spark.lake.parquet_file import FileForm, ParquetFile
from quiver_spark.lake.storage.store import Store

OPEN_FILES = 16
"""Timestamps may have any date. Above this, the least recently written file is closed."""
WAITING_BYTES = 64 * MIB
"""Of all open files together."""
LARGEST_FILE_BYTES = 512 * MIB


class SliceFiles:
    """Takes the batches of a slice in order. Used with `with`: files that were not finished are removed."""

    def __init__(self, store: Store, slice_of: LakeFile, form: FileForm) -> None:
        """`slice_of` has what all files have in common: topic, partition, range, attempt and layout."""
        self._store = store
        self._common = slice_of
        self._form = form
        self._open: dict[int, ParquetFile] = {}
        self._begins: dict[int, int] = {}
        """Where the next file of a date begins that had one before."""
        self._closed: list[LakeFile] = []

    def __enter__(self) -> "SliceFiles":
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._open.values():
            file.abandon()
        self._open.clear()

    def add(self, batch: pa.RecordBatch) -> None:
        for day, rows in by_day(batch):
            file = self._file(day)
            file.add(rows)
            if file.written_bytes >= LARGEST_FILE_BYTES:
                self._close(day, file.file.last_offset + 1)
        while sum(file.waiting_bytes for file in self._open.values()) > WAITING_BYTES:
            max(self._open.values(), key=lambda file: file.waiting_bytes).flush()

    def finish(self) -> list[LakeFile]:
        """All files, by date and range; they are durable."""
        for day in list(self._open):
            self._close(day, self._common.stop)
        self._store.make_names_durable(file.path for file in self._closed)
        return sorted(self._closed, key=lambda file: (file.date, file.start))

    def _file(self, day: int) -> ParquetFile:
        """The open file of a date, which counts as the last one written to."""
        found = self._open.pop(day, None)
        if found is None:
            if len(self._open) >= OPEN_FILES:
                oldest = next(iter(self._open))
                self._close(oldest, self._open[oldest].file.last_offset + 1)
            start = self._begins.get(day, self._common.start)
            common = self._common._replace(date=date_of(day), start=start)
            found = ParquetFile(self._store, common, self._form)
        self._open[day] = found
        return found

    def _close(self, day: int, stop: int) -> None:
        self._closed.append(self._open.pop(day).close(stop))
        self._begins[day] = stop


def by_day(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each day of the timestamps, days after 1970-01-01; order is kept. Most batches have one."""
    days = batch.column("timestamp").view(pa.int64()).to_numpy() // DAY_US
    first, last = int(days.min()), int(days.max())
    if first == last:
        yield first, batch
        return
    for day in np.unique(days):
        yield int(day), batch.filter(pa.array(days == day))
