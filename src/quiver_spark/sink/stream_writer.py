"""Streaming writes: the rows of each micro-batch in one transaction, under the key of its query and number."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyspark
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quiver.model.errors import CommitKeyConflict, InvalidRequest, NotSupported
from quiver_spark.runtime.worker_modules import is_worker
from quiver_spark.sink.batch_offsets import describe, source_offsets
from quiver_spark.sink.columns import check_written
from quiver_spark.sink.exactly_once import (
    Attempt,
    Commit,
    Written,
    abort_left,
    check_target,
    commit_written,
    mark_now,
    mark_of,
    write_rows,
    written_of,
)
from quiver_spark.sink.options import write_options
from quiver_spark.sink.write_mark import WriteMark

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
"""Spark's internal names: no public interface tells a sink which query it belongs to."""
_DIGITS = 16
_ENDING = "pyspark.sql.worker.python_streaming_sink_runner"
"""The process in which Spark creates a writer to commit or abort a micro-batch."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Created where a micro-batch is planned and where it is committed; copies of the first write in the tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            advice = "use outputMode('append'), or foreachBatch with the option commitKey"
            raise InvalidRequest(problem=f"a topic is never overwritten: {advice}")
        self._options = write_options(options, streaming=True)
        self._columns = check_written(
            [(field.name, field.dataType.simpleString()) for field in schema.fields],
            use_partition_column=self._options.use_partition_column,
            use_topic_column=self._options.topic is None,
            include_headers=self._options.include_headers,
        )
        place = self._options.checkpoint
        self._family = "" if place is None else hashlib.sha256(place.encode()).hexdigest()[:_DIGITS]
        """Identifies the query where its id is not known: by the checkpoint, if the options name it."""
        self._mark: WriteMark | None = None
        """Set when a micro-batch of the query is aborted."""
        if not is_worker(_ENDING):  # a failing check would hide the error that caused the abort
            check_target(self._options)
            if self._family:
                self._mark = mark_now(self._options, self._family)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        context = TaskContext.get()
        assert context is not None, "Spark calls it in a task"
        query, batch = query_and_batch(context)
        # Slots are the same in every micro-batch, so that a query needs few producers.
        slot = f"{context.partitionId()}.{context.attemptNumber()}"
        attempt = Attempt(f"{self._family}.{query}", slot, context.partitionId(), batch)
        return write_rows(iterator, self._columns, self._options, attempt, self._mark)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = written_of(messages)
        if not written:
            return
        write = written[0].attempt.write
        if any((each.attempt.write, each.attempt.batch) != (write, batchId) for each in written):
            known = {each.attempt for each in written}
            raise NotSupported(f"Spark {pyspark.__version__} commits micro-batch {batchId} with rows of {known}")
        key = f"spark/{write.partition('.')[2]}/{batchId}"
        rows = sum(each.rows for each in written)
        description = describe(rows, source_offsets(self._options.checkpoint, batchId))
        try:
            commit_written(Commit(written, f"{write}/", key, description, keeps_empty=True), self._options)
        except CommitKeyConflict as error:
            raise CommitKeyConflict(
                f"micro-batch {batchId} of this query was written before with other rows ({error.message}): the"
                " checkpoint was restored to an earlier state, or a part of it was removed. Nothing of this batch was"
                " written. Restore the latest checkpoint; or start the query with a new checkpoint, and start at the"
                " offsets up to which the topic it writes has everything"
            ) from None

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._family:
            abort_left(self._options, f"{self._family}.", mark_of(self._family))
        elif written := written_of(messages):
            abort_left(self._options, f"{written[0].attempt.write}/")


def query_and_batch(context: TaskContext) -> tuple[str, int]:
    """The id of the query that a task belongs to, and the number of the micro-batch."""
    query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
    if not query or batch is None or not batch.isdigit():
        raise NotSupported(
            f"Spark {pyspark.__version__} does not tell its tasks the query and the micro-batch ({QUERY_PROPERTY}, "
            f"{BATCH_PROPERTY}), so rows cannot be written exactly once; use the Spark that quivermq[spark] installs"
        )
    return query, int(batch)
