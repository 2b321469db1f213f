"""Batch writes: the rows of a DataFrame in one transaction."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quiver.model.errors import CommitKeyConflict, InvalidRequest
from quiver.system.randomness import SystemRandomness
from quiver_spark.sink.batch_offsets import describe
from quiver_spark.sink.columns import check_written
from quiver_spark.sink.exactly_once import (
    Attempt,
    Commit,
    Written,
    abort_left,
    check_target,
    commit_written,
    mark_of,
    write_rows,
    written_of,
)
from quiver_spark.sink.options import write_options

if TYPE_CHECKING:
    import pyarrow as pa

_WRITE_BYTES = 12
_DIGITS = 16


class BatchWriter(DataSourceArrowWriter):
    """Created once when the write is planned; copies of it write in the tasks and commit on the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                problem="a topic is never overwritten: use mode('append'), or delete the topic and create it again"
            )
        self._options = write_options(options)
        self._columns = check_written(
            [(field.name, field.dataType.simpleString()) for field in schema.fields],
            use_partition_column=self._options.use_partition_column,
            use_topic_column=self._options.topic is None,
            include_headers=self._options.include_headers,
        )
        key, token = self._options.commit_key, SystemRandomness().token(_WRITE_BYTES).hex()
        family = "" if key is None else f"{hashlib.sha256(key.encode()).hexdigest()[:_DIGITS]}."
        self._write = f"{family}{token}"
        self._mark = mark_of(self._write)
        check_target(self._options)
        if family:  # what a driver that was killed has left open would hold up readers until it times out
            abort_left(self._options, family)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        context = TaskContext.get()
        assert context is not None, "Spark calls it in a task"
        attempt = Attempt(self._write, str(context.taskAttemptId()), context.partitionId())
        return write_rows(iterator, self._columns, self._options, attempt, self._mark)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written, key = written_of(messages), self._options.commit_key or f"spark/{self._write}"
        rows = describe(sum(each.rows for each in written))
        try:
            commit_written(Commit(written, f"{self._write}/", key, rows, self._mark), self._options)
        except CommitKeyConflict as error:
            raise CommitKeyConflict(
                f"a write with commitKey {key!r} was committed before and had other rows ({error.message}); nothing"
                " of this one was written: give other rows a key of their own"
            ) from None

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_left(self._options, f"{self._write}/", self._mark)
