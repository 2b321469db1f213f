"""Tasks of the sink that go on when their write is over, as Spark lets them: nothing of theirs stays open."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructType

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import TransactionAborted
from quiver_spark.sink.batch_writer import BatchWriter
from quiver_spark.sink.stream_writer import BATCH_PROPERTY, QUERY_PROPERTY, StreamWriter
from spark.topic_rows import new_topic, sdk_rows

_SCHEMA = StructType().add("value", BinaryType())


@pytest.fixture
def task() -> Iterator[Callable[[int], None]]:
    """What is done next is done in this task."""

    def enter(number: int) -> None:
        properties = {QUERY_PROPERTY: "a-query", BATCH_PROPERTY: "0"}
        TaskContext._setTaskContext(None)
        TaskContext._setTaskContext(
            TaskContext(partitionId=number, attemptNumber=0, taskAttemptId=number, localProperties=properties)
        )

    yield enter
    TaskContext._setTaskContext(None)


def _rows(value: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"value": [value]})


def _check(broker: BrokerProcess, topic: str, *values: bytes) -> None:
    """These are committed and nothing is open."""
    assert sorted(row.value or b"" for row in sdk_rows(broker, topic)) == list(values)
    with quiver.connect(broker.address) as client:
        assert not any(each.state == "open" and topic in dict(each.partitions) for each in client.transactions.list())


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_a_task_of_a_batch_write_that_is_over(
    spark_broker: BrokerProcess, task: Callable[[int], None], ending: str
) -> None:
    topic = new_topic(spark_broker)
    writer = BatchWriter({"bootstrap": spark_broker.address, "topic": topic}, _SCHEMA, False)
    task(0)
    getattr(writer, ending)([writer.write(_rows(b"in time"))])
    task(1)
    with pytest.raises(TransactionAborted, match="its write ended without it"):
        writer.write(_rows(b"late"))
    _check(spark_broker, topic, *([b"in time"] if ending == "commit" else []))


def test_a_task_that_ends_while_its_write_does(spark_broker: BrokerProcess, task: Callable[[int], None]) -> None:
    """What it has stored by then is aborted by the driver."""
    topic = new_topic(spark_broker)
    writer = BatchWriter({"bootstrap": spark_broker.address, "topic": topic}, _SCHEMA, False)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [bytes(5_000_000)]})
        writer.abort([None])

    task(0)
    with pytest.raises(quiver.QuiverError):
        writer.write(rows())
    _check(spark_broker, topic)


def test_a_task_of_a_query_that_has_failed(spark_broker: BrokerProcess, task: Callable[[int], None]) -> None:
    topic = new_topic(spark_broker)
    options = {"bootstrap": spark_broker.address, "topic": topic, "checkpointLocation": f"/checkpoints/{topic}"}
    for _ in range(2):  # it fails, is started again, and fails again
        planned = StreamWriter(options, _SCHEMA, False)
        StreamWriter(options, _SCHEMA, False).abort([None, None], 0)
        task(0)
        with pytest.raises(TransactionAborted, match="its write ended without it"):
            planned.write(_rows(b"late"))
        _check(spark_broker, topic)
    again = StreamWriter(options, _SCHEMA, False)
    again.commit([again.write(_rows(b"in time"))], 0)
    _check(spark_broker, topic, b"in time")
