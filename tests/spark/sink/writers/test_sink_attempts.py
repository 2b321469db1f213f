"""Attempts of tasks, commits and aborts of the sink, as Spark calls them: each row counts once, whoever loses."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver.model.errors import NotSupported, ProducerFenced
from quiver_spark.sink.batch_writer import BatchWriter
from quiver_spark.sink.stream_writer import BATCH_PROPERTY, QUERY_PROPERTY, StreamWriter
from spark.topic_rows import new_topic

_SCHEMA = StructType([StructField("value", BinaryType())])
_QUERY = "0b6c3cb9-7a1c-4a43-9be4-6ff3c5a6a9fb"


@pytest.fixture(autouse=True)
def _no_task() -> Iterator[None]:
    yield
    TaskContext._setTaskContext(None)


def _in_task(partition: int = 0, attempt: int = 0, task: int = 0, **properties: str) -> None:
    """What is done next is done in this task."""
    words = {"partitionId": partition, "attemptNumber": attempt, "taskAttemptId": task, "localProperties": properties}
    TaskContext._setTaskContext(None)
    TaskContext._setTaskContext(TaskContext(**words))


def _rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"value": pa.array(values, pa.binary())})


def _read(broker: BrokerProcess, topic: str, isolation: str = "read_committed") -> list[bytes]:
    with (
        quiver.connect(broker.address) as client,
        client.read(topic, "earliest", "latest", isolation=isolation) as reader,
    ):
        return sorted(message.value for message in reader)


def _open(broker: BrokerProcess, topic: str) -> list[str]:
    """Transactional ids of what is open in a topic."""
    with quiver.connect(broker.address) as client:
        found = client.transactions.list()
    return [str(each.transactional_id) for each in found if each.state == "open" and topic in dict(each.partitions)]


class Query:
    """The sink of a query: a writer is made for every call, as Spark does."""

    def __init__(self, broker: BrokerProcess, topic: str, query: str = _QUERY, **options: str) -> None:
        self.options = {"bootstrap": broker.address, "topic": topic, **options}
        self.query = query

    def writer(self) -> StreamWriter:
        return StreamWriter(self.options, _SCHEMA, False)

    def write(self, batch: int, *values: bytes, partition: int = 0, attempt: int = 0) -> Any:
        _in_task(partition, attempt, **{QUERY_PROPERTY: self.query, BATCH_PROPERTY: str(batch)})
        return self.writer().write(_rows(*values))


@pytest.fixture
def query(spark_broker: BrokerProcess) -> Callable[..., Query]:
    def query(**options: str) -> Query:
        topic = options.pop("topic", None) or new_topic(spark_broker)
        return Query(spark_broker, topic, query=f"query-of-{topic}", **options)

    return query


def test_rows_are_seen_when_the_batch_is_committed(spark_broker: BrokerProcess, query: Callable[..., Query]) -> None:
    sink = query()
    topic = sink.options["topic"]
    messages = [sink.write(0, b"a", b"b", partition=0), sink.write(0, b"c", partition=1)]
    assert _read(spark_broker, topic) == []
    assert _read(spark_broker, topic, "read_uncommitted") == [b"a", b"b", b"c"]
    sink.writer().commit(messages, 0)
    assert _read(spark_broker, topic) == [b"a", b"b", b"c"]
    assert [message.rows for message in messages] == [2, 1]


def test_of_two_attempts_only_the_one_that_is_committed_counts(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink = query()
    topic = sink.options["topic"]
    loser = sink.write(0, b"a", b"b")
    winner = sink.write(0, b"a", b"b", attempt=1)
    assert loser.producer != winner.producer
    assert len(_open(spark_broker, topic)) == 2
    sink.writer().commit([winner], 0)
    assert _read(spark_broker, topic) == [b"a", b"b"]
    assert _open(spark_broker, topic) == []


def test_a_replayed_batch_counts_once_and_leaves_nothing_open(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink = query()
    topic = sink.options["topic"]
    sink.writer().commit([sink.write(7, b"a"), sink.write(7, b"b", partition=1)], 7)
    again = [sink.write(7, b"b"), sink.write(7, b"a", partition=1)]
    sink.writer().commit(again, 7)
    assert _read(spark_broker, topic) == [b"a", b"b"]
    assert _open(spark_broker, topic) == []
    sink.writer().commit([sink.write(8, b"c")], 8)
    assert _read(spark_broker, topic) == [b"a", b"b", b"c"]


def test_the_same_commit_again_and_an_abort_after_it_change_nothing(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink = query(checkpointLocation="/somewhere/of/its/own")
    topic = sink.options["topic"]
    messages = [sink.write(0, b"a")]
    sink.writer().commit(messages, 0)
    sink.writer().commit(messages, 0)
    sink.writer().abort(messages, 0)
    sink.writer().abort([None], 0)
    assert _read(spark_broker, topic) == [b"a"]


def test_an_abort_takes_back_what_is_known_and_what_the_checkpoint_names(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink, named = query(), query(checkpointLocation="/a/checkpoint")
    messages = [sink.write(0, b"a"), None]
    sink.writer().abort(messages, 0)
    assert _open(spark_broker, sink.options["topic"]) == []
    named.write(0, b"a")
    other = query(checkpointLocation="/another/checkpoint")
    other.write(0, b"a")
    named.writer().abort([None, None], 0)
    assert _open(spark_broker, named.options["topic"]) == []
    assert len(_open(spark_broker, other.options["topic"])) == 1
    other.writer().abort([None], 0)
    sink.writer().commit([sink.write(0, b"again")], 0)
    assert _read(spark_broker, sink.options["topic"]) == [b"again"]


def test_two_drivers_of_one_query_write_a_batch_once(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    """The second has fenced the first, whose rows are written again: the key of the batch counts once."""
    sink = query()
    topic = sink.options["topic"]
    before = [sink.write(3, b"a"), sink.write(3, b"b", partition=1)]
    after = [sink.write(3, b"b"), sink.write(3, b"a", partition=1)]
    sink.writer().commit(before, 3)
    sink.writer().commit(after, 3)
    assert _read(spark_broker, topic) == [b"a", b"b"]
    assert _open(spark_broker, topic) == []


def test_an_attempt_that_fails_in_the_middle_leaves_nothing(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink = query()

    def failing() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield pa.record_batch({"value": pa.array([bytes(1_000_000)] * 5)})
        raise ValueError("the rows ran out")

    _in_task(0, 0, **{QUERY_PROPERTY: sink.query, BATCH_PROPERTY: "0"})
    with pytest.raises(ValueError, match="the rows ran out"):
        sink.writer().write(failing())
    assert _open(spark_broker, sink.options["topic"]) == []
    assert _read(spark_broker, sink.options["topic"]) == []


def test_a_worker_that_was_killed_is_cleared_up_by_the_next_commit(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink = query()
    topic = sink.options["topic"]
    code = f"""
import sys, quiver
client = quiver.connect({spark_broker.address!r})
transaction = client.transactional("spark/.{sink.query}/0.0").begin()
transaction.publish({topic!r}, b"a")
transaction.flush()
print("written", flush=True)
sys.stdin.read()
"""
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "written\n"
        worker.send_signal(signal.SIGKILL)
    assert len(_open(spark_broker, topic)) == 1
    sink.writer().commit([sink.write(0, b"a", attempt=1)], 0)
    assert _read(spark_broker, topic) == [b"a"]
    assert _open(spark_broker, topic) == []


def test_tasks_without_rows_need_no_producer(spark_broker: BrokerProcess, query: Callable[..., Query]) -> None:
    sink = query()
    empty = sink.write(0)
    assert empty.producer is None
    sink.writer().commit([empty], 0)
    sink.writer().commit([sink.write(1), sink.write(1, b"a", partition=1)], 1)
    assert _read(spark_broker, sink.options["topic"]) == [b"a"]


def test_a_query_keeps_its_producers(spark_broker: BrokerProcess, query: Callable[..., Query]) -> None:
    sink = query()
    found = [sink.write(0, b"a"), sink.write(1, b"b")]
    assert found[0].producer[0] == found[1].producer[0]
    assert found[0].producer[1] < found[1].producer[1]


def test_rows_of_a_transaction_that_took_too_long_are_written_again(
    spark_broker: BrokerProcess, query: Callable[..., Query]
) -> None:
    sink = query(transactionTimeout="1s")
    messages = [sink.write(0, b"a")]
    wait_until(lambda: not _open(spark_broker, sink.options["topic"]), 20, "the broker has aborted it")
    sink.writer().commit(messages, 0)
    assert _read(spark_broker, sink.options["topic"]) == [b"a"]
    gone = [sink.write(1, b"b")]
    wait_until(lambda: not _open(spark_broker, sink.options["topic"]), 20, "the broker has aborted it")
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(sink.options["topic"])
    with pytest.raises(ProducerFenced, match="Nothing of it was written"):
        sink.writer().commit(gone, 1)


def test_a_broker_killed_between_the_tasks_and_the_commit(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("--native-port", str(free_port()))
    sink = Query(broker, new_topic(broker))
    sink.writer().commit([sink.write(0, b"a")], 0)
    messages = [sink.write(1, b"b")]
    broker.restart(kill=True)
    sink.writer().commit(messages, 1)
    broker.restart(kill=True)
    sink.writer().commit([sink.write(1, b"b")], 1)
    assert _read(broker, sink.options["topic"]) == [b"a", b"b"]


def test_a_batch_write_has_a_key_of_its_own_or_one_that_is_given(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    options = {"bootstrap": spark_broker.address, "topic": topic}

    def write(value: bytes, **more: str) -> None:
        writer = BatchWriter({**options, **more}, _SCHEMA, False)
        _in_task(task=5)
        messages = [writer.write(_rows(value))]
        writer.commit(messages)
        writer.commit(messages)

    for value in (b"a", b"b"):
        write(value)
    for value in (b"c", b"d"):
        write(value, commitKey=f"import of {topic}")
    assert _read(spark_broker, topic) == [b"a", b"b", b"c"]
    assert _open(spark_broker, topic) == []


def test_a_batch_write_that_is_aborted(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    writer = BatchWriter({"bootstrap": spark_broker.address, "topic": topic}, _SCHEMA, False)
    _in_task(task=5)
    writer.write(_rows(b"a"))
    writer.abort([None])
    assert _read(spark_broker, topic) == []
    assert _open(spark_broker, topic) == []


def test_a_spark_that_does_not_name_query_and_batch_is_refused(query: Callable[..., Query]) -> None:
    writer = query().writer()
    for properties in ({}, {QUERY_PROPERTY: "q"}, {BATCH_PROPERTY: "1"}):
        _in_task(**properties)
        with pytest.raises(NotSupported, match="does not tell its tasks the query and the micro-batch"):
            writer.write(_rows(b"a"))


def test_a_commit_of_another_batch_is_refused(query: Callable[..., Query]) -> None:
    sink = query()
    with pytest.raises(NotSupported, match="commits micro-batch 4 with rows of"):
        sink.writer().commit([sink.write(3, b"a")], 4)
    sink.writer().abort([sink.write(3, b"a")], 3)
