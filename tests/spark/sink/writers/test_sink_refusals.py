"""What the sink refuses, as Spark calls it: before any row is written, or with nothing of the write left."""

import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructType

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port
from quiver.model.errors import ConnectionLost, QuiverError, TopicNotFound
from quiver_spark.sink.batch_writer import BatchWriter
from quiver_spark.sink.stream_writer import StreamWriter
from spark.topic_rows import new_topic, sdk_rows

_VALUE = StructType().add("value", BinaryType())


@pytest.fixture
def _in_task() -> Iterator[None]:
    TaskContext._setTaskContext(TaskContext(partitionId=0, attemptNumber=0, taskAttemptId=0, localProperties={}))
    yield
    TaskContext._setTaskContext(None)


@pytest.mark.parametrize("kind", [BatchWriter, StreamWriter])
def test_a_topic_and_a_broker_that_are_not_there(
    spark_broker: BrokerProcess, kind: type[BatchWriter] | type[StreamWriter]
) -> None:
    with pytest.raises(TopicNotFound, match="quiver topic create nowhere"):
        kind({"bootstrap": spark_broker.address, "topic": "nowhere"}, _VALUE, False)
    address = f"127.0.0.1:{free_port()}"
    says = rf"no connection to {address}.*is the broker running there \(option bootstrap\)"
    with pytest.raises(ConnectionLost, match=says):
        kind({"bootstrap": address, "topic": "t", "timeout": "100ms"}, _VALUE, False)


def test_an_abort_without_a_broker_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would tell users that the abort has failed instead of why it was called."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.python_streaming_sink_runner", ModuleType("runner"))
    options = {"bootstrap": f"127.0.0.1:{free_port()}", "topic": "t", "timeout": "100ms", "checkpointLocation": "/c"}
    StreamWriter(options, _VALUE, False).abort([None], 3)


@pytest.mark.usefixtures("_in_task")
@pytest.mark.parametrize(
    ("column", "kind", "item", "problem"),
    [
        ("priority", StringType(), "soon", "priority 'soon' is not one of critical, high"),
        ("partition", IntegerType(), 2, "has 2 partitions, numbered from 0: there is no partition 2"),
        ("headers", MapType(StringType(), BinaryType()), {"a": None}, "a header value may not be null"),
        ("key", StringType(), "a" * 2_000_000, "over the limit"),
    ],
)
def test_rows_that_do_not_fit_fail_the_write(
    spark_broker: BrokerProcess, column: str, kind: DataType, item: object, problem: str
) -> None:
    topic = new_topic(spark_broker)
    options = {"bootstrap": spark_broker.address, "topic": topic, "usePartitionColumn": str(column == "partition")}
    writer = BatchWriter(options, StructType().add("value", BinaryType()).add(column, kind), False)
    types = {"partition": pa.int32(), "headers": pa.map_(pa.string(), pa.binary())}
    rows = pa.record_batch(
        {"value": [b"a", b"b"], column: pa.array([None, item], types.get(column, pa.string()))},
    )
    with pytest.raises(QuiverError, match=re.escape(problem)):
        writer.write(iter([rows]))
    assert sdk_rows(spark_broker, topic) == []
    with quiver.connect(spark_broker.address) as client:
        assert not any(each.state == "open" and topic in dict(each.partitions) for each in client.transactions.list())


@pytest.mark.usefixtures("_in_task")
def test_a_batch_says_how_long_it_may_take(
    spark_broker: BrokerProcess, start_broker: Callable[..., BrokerProcess]
) -> None:
    """The broker has a limit of its own, which can be raised."""
    rows = pa.record_batch({"value": [b"a"]})
    for broker, is_taken in ((spark_broker, False), (start_broker("--transaction-max", "2h"), True)):
        options = {"bootstrap": broker.address, "topic": new_topic(broker), "transactionTimeout": "1h"}
        writer = BatchWriter(options, _VALUE, False)
        if is_taken:
            writer.commit([writer.write(iter([rows]))])
            assert [row.value for row in sdk_rows(broker, options["topic"])] == [b"a"]
        else:
            with pytest.raises(QuiverError, match=r"1 ms to 15m here, not 1h; .* set transaction_max of the broker"):
                writer.write(iter([rows]))
