"""Streaming writes: the rows of each micro-batch in one transaction, under the key of its query and number."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyspark
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quiver.model.errors import InvalidRequest, NotSupported
from quiver_spark.sink import Attempt, Written, abort_written, check_target, commit_written, write_rows
from quiver_spark.write_options import write_options
from quiver_spark.written_columns import check_written

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
"""What Spark calls them inside; nothing of its interface tells a sink which query it belongs to."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew where a micro-batch is planned and where it is committed; copies of the first write in the tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidRequest(
                problem="a topic is never overwritten: use outputMode('append') or 'update' instead of 'complete'"
            )
        self._options = write_options(options, streaming=True)
        self._columns = check_written(
            [(field.name, field.dataType.simpleString()) for field in schema.fields],
            use_partition_column=self._options.use_partition_column,
        )
        check_target(self._options)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        context = TaskContext.get()
        assert context is not None, "Spark calls it in a task"
        return write_rows(iterator, self._columns, self._options, task_attempt(context))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        names = {(message.attempt.write, message.attempt.batch) for message in written}
        if not names:
            return
        if len(names) > 1 or next(iter(names))[1] != batchId:
            raise NotSupported(f"Spark {pyspark.__version__} commits micro-batch {batchId} with rows of {names}")
        query, batch = names.pop()
        commit_written(written, self._options, f"spark/{query}/{batch}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort_written(messages, self._options)


def task_attempt(context: TaskContext) -> Attempt:
    """Who writes. Slots are the same in every micro-batch, so that a query needs few producers."""
    query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
    if not query or batch is None or not batch.isdigit():
        raise NotSupported(
            f"Spark {pyspark.__version__} does not tell its tasks the query and the micro-batch ({QUERY_PROPERTY}, "
            f"{BATCH_PROPERTY}), so rows cannot be written exactly once; use the Spark that quivermq[spark] installs"
        )
    slot = f"{context.partitionId()}.{context.attemptNumber()}"
    return Attempt(query, slot, context.partitionId(), int(batch))
