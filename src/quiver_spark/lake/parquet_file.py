"""One Parquet file that is being written, in row groups of a good size."""

import contextlib
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quiver.model.limits import MIB
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.storage.store import Store

ROW_GROUP_BYTES = 32 * MIB
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
DEFAULT_COMPRESSION = "zstd"
_DICTIONARY = ("topic", "date", "partition", "priority")
"""Columns with few distinct values; a dictionary for any other costs more than it saves."""
_STATISTICS = ("topic", "date", "partition", "offset", "timestamp", "append_time")


class FileForm(NamedTuple):
    """What all files of a task have in common."""

    schema: pa.Schema
    compression: str = DEFAULT_COMPRESSION
    sorted_by: tuple[str, ...] = ("offset",)


class ParquetFile:
    """Takes batches; `file` says what was written so far."""

    def __init__(self, store: Store, file: LakeFile, form: FileForm) -> None:
        self.file = file
        self.waiting_bytes = 0
        self._schema = form.schema
        self._waiting: list[pa.RecordBatch] = []
        self._output = store.create(file.path)
        self._writer = pq.ParquetWriter(
            self._output.stream,
            form.schema,
            compression=form.compression,
            use_dictionary=[name for name in _DICTIONARY if name in form.schema.names],
            write_statistics=[name for name in (*_STATISTICS, *form.sorted_by) if name in form.schema.names],
            sorting_columns=_sorting_columns(form),
            store_schema=False,
        )

    @property
    def written_bytes(self) -> int:
        return int(self._output.stream.tell())

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(completed(batch, self._schema, self.file))
        self.waiting_bytes += batch.nbytes
        self.file = _with_rows(self.file, batch)
        if self.waiting_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what waits as one row group."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting)
        self._waiting, self.waiting_bytes = [], 0
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._output.flush()

    def close(self, stop: int) -> LakeFile:
        """The file under its name, with a range that ends at `stop`."""
        self.flush()
        self._writer.close()
        self.file = self.file._replace(stop=stop)
        self.file = self.file._replace(size_bytes=self._output.finish(self.file.path))
        return self.file

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # a full disk may be the reason for giving up
            self._writer.close()
        self._output.abandon()


def completed(batch: pa.RecordBatch, schema: pa.Schema, file: LakeFile) -> pa.RecordBatch:
    """The batch with the columns of a schema: topic, date and partition are those of the file, others that it lacks
    are null."""
    if batch.schema.names == schema.names:
        return batch
    constants = {"topic": file.topic, "date": date.fromisoformat(file.date), "partition": file.partition}
    arrays = []
    for field in schema:
        if field.name in batch.schema.names:
            arrays.append(batch.column(field.name).cast(field.type))
        else:
            value = pa.scalar(constants.get(field.name), field.type)
            arrays.append(pa.repeat(value, len(batch)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sorting_columns(form: FileForm) -> list[pq.SortingColumn] | None:
    names = [name for name in form.sorted_by if name in form.schema.names]
    return [pq.SortingColumn(form.schema.get_field_index(name)) for name in names] or None


def _with_rows(file: LakeFile, batch: pa.RecordBatch) -> LakeFile:
    """What is known of a file with the rows of one more batch in it."""
    least, most = _bounds(batch.column("offset"))
    low, high = _bounds(batch.column("timestamp"))
    first, last = _bounds(batch.column("append_time"))
    if file.rows:
        least, most = min(least, file.first_offset), max(most, file.last_offset)
        low, high = min(low, file.min_time_us), max(high, file.max_time_us)
        first, last = min(first, file.min_append_us), max(last, file.max_append_us)
    return file._replace(
        rows=file.rows + len(batch),
        first_offset=least,
        last_offset=most,
        min_time_us=low,
        max_time_us=high,
        min_append_us=first,
        max_append_us=last,
    )


def _bounds(values: pa.Array) -> tuple[int, int]:
    found = pc.min_max(values.view(pa.int64()))
    return found["min"].as_py(), found["max"].as_py()
