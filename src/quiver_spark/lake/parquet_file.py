"""One Parquet file that is being written: in row groups of a good size, synced before it is committed."""

import contextlib
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quiver.model.limits import MIB
from quiver.system.files import Files
from quiver_spark.lake.files import LakeFile

ROW_GROUP_BYTES = 32 * MIB
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
DEFAULT_COMPRESSION = "zstd"
_BUFFER_BYTES = MIB
_FILES = Files()
_DICTIONARY = ("partition", "priority")
"""Columns with few distinct values; a dictionary for any other costs more than it saves."""


class ParquetFile:
    """Takes batches in order of offset; `file` says what was written so far."""

    def __init__(self, root: Path, file: LakeFile, schema: pa.Schema, compression: str) -> None:
        self.file = file
        self.waiting_bytes = 0
        self._root = root
        self._path = root / f"{file.path}.new"
        self._waiting: list[pa.RecordBatch] = []
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = self._path.open("wb", buffering=_BUFFER_BYTES)
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression=compression,
            use_dictionary=[name for name in _DICTIONARY if name in schema.names],
            write_statistics=["partition", "offset", "timestamp", "append_time"],
            store_schema=False,
        )

    @property
    def written_bytes(self) -> int:
        return self._stream.tell()

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
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
        self._sync()

    def close(self, stop: int) -> LakeFile:
        """The file under its name, with a range that ends at `stop`."""
        self.flush()
        self._writer.close()
        self._sync()
        self._stream.close()
        self.file = self.file._replace(stop=stop, size_bytes=self._path.stat().st_size)
        self._path.rename(self._root / self.file.path)
        return self.file

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # a full disk may be the reason for giving up
            self._writer.close()
            self._stream.close()
        self._path.unlink(missing_ok=True)

    def _sync(self) -> None:
        """After each row group: syncing a whole file at the end takes much longer."""
        self._stream.flush()
        _FILES.fdatasync(self._stream.fileno())


def _with_rows(file: LakeFile, batch: pa.RecordBatch) -> LakeFile:
    """What is known of a file with the rows of one more batch in it."""
    offsets = batch.column("offset")
    low, high = _bounds(batch.column("timestamp"))
    first, last = _bounds(batch.column("append_time"))
    if file.rows:
        low, high = min(low, file.min_time_us), max(high, file.max_time_us)
        first, last = min(first, file.min_append_us), max(last, file.max_append_us)
    return file._replace(
        rows=file.rows + len(offsets),
        first_offset=file.first_offset if file.rows else offsets[0].as_py(),
        last_offset=offsets[-1].as_py(),
        min_time_us=low,
        max_time_us=high,
        min_append_us=first,
        max_append_us=last,
    )


def _bounds(times: pa.Array) -> tuple[int, int]:
    found = pc.min_max(times)
    return found["min"].value, found["max"].value
