"""Streaming queries with the quiver sink: every row once, also when a batch is replayed.

What is killed meanwhile is in test_query_kills.py.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import BinaryType, StructType

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import TransactionNotFound
from quiver_spark.sink.stream_writer import QUERY_PROPERTY, StreamWriter
from spark.topic_rows import new_topic, publish, sdk_rows

_SECONDS = 120


class Copy:
    """A query that copies one topic into another."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, place: Path) -> None:
        self._spark, self._broker = spark, broker
        self.source, self.target = new_topic(broker), new_topic(broker, partitions=3)
        self.checkpoint = place / f"checkpoint-{self.target}"

    def rows(self) -> DataFrame:
        options = {"bootstrap": self._broker.address, "topic": self.source, "maxRowsPerTrigger": 100}
        return self._spark.readStream.format("quiver").options(**options).load()

    def start(self, frame: DataFrame | None = None, mode: str = "append") -> StreamingQuery:
        """Copies what is there, in batches."""
        frame = self.rows().select("key", "value") if frame is None else frame
        options = {
            "bootstrap": self._broker.address,
            "topic": self.target,
            "checkpointLocation": str(self.checkpoint),
            "timeout": "20s",
        }
        return (
            frame.writeStream.format("quiver").options(**options).outputMode(mode).trigger(availableNow=True).start()
        )

    def run(self) -> StreamingQuery:
        query = self.start()
        assert query.awaitTermination(_SECONDS)
        return query

    def values(self, topic: str | None = None) -> list[Any]:
        return sorted(row.value for row in sdk_rows(self._broker, topic or self.target))


@pytest.fixture
def copy(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> Copy:
    return Copy(spark, spark_broker, tmp_path)


def _open(broker: BrokerProcess, topic: str) -> int:
    with quiver.connect(broker.address) as client:
        return sum(each.state == "open" and topic in dict(each.partitions) for each in client.transactions.list())


def test_batches_are_written_once_each(copy: Copy, spark_broker: BrokerProcess) -> None:
    """Also when they are replayed: Spark died between the commit of the sink and its own."""
    publish(spark_broker, copy.source, 150)
    query = copy.run()
    before = sdk_rows(spark_broker, copy.target)
    assert sorted(row.value or b"" for row in before) == sorted(b"v%d" % n for n in range(150))
    assert len([batch for batch in query.recentProgress if batch.numInputRows]) >= 2
    _check_names(copy, query, spark_broker)

    _forget_last_commit(copy.checkpoint)
    again = copy.run()
    assert sum(batch.numInputRows for batch in again.recentProgress) > 0, "the batch was not replayed"
    assert sdk_rows(spark_broker, copy.target) == before
    assert _open(spark_broker, copy.target) == 0
    publish(spark_broker, copy.source, 30)
    _forget_last_commit(copy.checkpoint)
    copy.run()
    assert copy.values() == copy.values(copy.source)


def _check_names(copy: Copy, query: StreamingQuery, broker: BrokerProcess) -> None:
    """Guards the inside of Spark that the sink relies on: tasks know the query and the number of the batch."""
    with quiver.connect(broker.address) as client:
        ended = [
            found
            for number in range(100)
            if (found := _described(client, f"spark/{_family(copy)}.{query.id}/{number}.0")) is not None
        ]
    assert ended, f"no producer is named after query {query.id}: does Spark still set {QUERY_PROPERTY}?"
    assert {found.state for found in ended} <= {"committed", "committing"}
    assert max(found.epoch for found in ended) >= 1, "the producers are used for one batch after the other"


def _family(copy: Copy) -> str:
    options = {"topic": copy.target, "bootstrap": copy._broker.address, "checkpointLocation": str(copy.checkpoint)}
    return StreamWriter(options, StructType().add("value", BinaryType()), False)._family


def _described(client: quiver.Client, transactional_id: str) -> Any:
    try:
        return client.transactions.describe(transactional_id)
    except TransactionNotFound:
        return None


def _forget_last_commit(checkpoint: Path) -> None:
    commits = checkpoint / "commits"
    last = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    last.unlink()
    commits.joinpath(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("mode", "problem"),
    [("complete", "a topic is never overwritten: use outputMode"), ("update", "does not support Update mode")],
)
def test_other_output_modes_are_refused(copy: Copy, spark_broker: BrokerProcess, mode: str, problem: str) -> None:
    publish(spark_broker, copy.source, 70)
    with pytest.raises(PySparkException, match=problem):
        copy.start(_counted(copy), mode=mode).awaitTermination(_SECONDS)
    assert copy.values() == []


def test_updates_are_written_batch_by_batch(copy: Copy, spark_broker: BrokerProcess) -> None:
    """As the documentation says: `foreachBatch`, and a key of the caller's own. A replay changes nothing."""
    options = {"bootstrap": spark_broker.address, "topic": copy.target}

    def write(rows: DataFrame, number: int) -> None:
        key = f"counts of {copy.source}/{number}"
        rows.write.format("quiver").options(**options, commitKey=key).mode("append").save()

    publish(spark_broker, copy.source, 70)
    for _ in range(2):
        writer = _counted(copy).writeStream.foreachBatch(write).outputMode("update")
        query = writer.option("checkpointLocation", str(copy.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(_SECONDS)
        assert copy.values() == [b"10"] * 7
        _forget_last_commit(copy.checkpoint)


def _counted(copy: Copy) -> DataFrame:
    return copy.rows().groupBy("key").count().selectExpr("key", "cast(count as string) value")
