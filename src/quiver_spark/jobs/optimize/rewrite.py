"""Writes files of the lake again as one: joined, sorted, or with typed columns. Runs in the workers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from quiver.system.randomness import SystemRandomness
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.json_columns import JsonColumns
from quiver_spark.lake.parquet_file import FileForm, ParquetFile, completed
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import Store, open_store

_BATCH_ROWS = 32_768
_ATTEMPT_BYTES = 6


class Rewritten(msgspec.Struct):
    """What became of a group: a new file, or a file of it that cannot be read, and why."""

    new: LakeFile | None = None
    bad: str = ""
    problem: str = ""


class RewriteTask(NamedTuple):
    """What the workers need; sent to them as it is."""

    place: LakePlace
    form: FileForm
    """Its schema has all columns of the table that a file may have."""
    typed: JsonColumns | None = None

    def write(self, group: Sequence[LakeFile]) -> Rewritten:
        store, first = open_store(self.place), group[0]
        try:
            schema = self._schema(store, group)
        except _Unreadable as error:
            return Rewritten(None, error.path, error.problem)
        attempt = SystemRandomness().token(_ATTEMPT_BYTES).hex()
        common = first._replace(stop=group[-1].stop, attempt=attempt, rows=0)
        joined = ParquetFile(store, common, self.form._replace(schema=schema))
        try:
            for batch in self._sorted(self._batches(store, group, schema), schema):
                joined.add(batch)
            done = joined.close(group[-1].stop)
        except BaseException as error:
            joined.abandon()
            if isinstance(error, _Unreadable):
                return Rewritten(None, error.path, error.problem)
            raise
        store.make_names_durable([done.path])
        return Rewritten(done)

    def _schema(self, store: Store, group: Sequence[LakeFile]) -> pa.Schema:
        """The columns that any of the files has, and typed ones."""
        names = {"topic", "date", *(self.typed.columns.names if self.typed else ())}
        for file in group:
            with _reading(file), pq.ParquetFile(store.source(file.path)) as found:
                names.update(found.schema_arrow.names)
        return pa.schema([field for field in self.form.schema if field.name in names])

    def _batches(self, store: Store, group: Sequence[LakeFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for file in group:
            with _reading(file), pq.ParquetFile(store.source(file.path)) as found:
                for batch in found.iter_batches(_BATCH_ROWS):
                    yield completed(self._typed(batch), schema, file)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.typed is None:
            return batch
        known = [name for name in self.typed.columns.names if name in batch.schema.names]
        return self.typed.extend_batch(batch.drop_columns(known))

    def _sorted(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """In the order that is asked for. The rows of a group are in memory for that."""
        if self.form.sorted_by == ("offset",):
            yield from batches
            return
        keys = [(name, "ascending") for name in self.form.sorted_by if name in schema.names]
        table = pa.Table.from_batches(batches, schema)
        yield from table.sort_by([*keys, ("offset", "ascending")]).to_batches(_BATCH_ROWS)


class _Unreadable(Exception):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


class _reading:
    """A `with` block that reads a file of the lake: what goes wrong there is a problem of that file."""

    def __init__(self, file: LakeFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise _Unreadable(self._file.path, "the file is gone") from error
        if isinstance(error, OSError | pa.ArrowException):
            raise _Unreadable(self._file.path, str(error).partition("\n")[0]) from error
