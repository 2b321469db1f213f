"""Streaming reads: nothing is missed and nothing comes twice, whatever happens to the topic meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import quiver
from blackbox.broker_process import BrokerProcess, free_port
from spark.topic_rows import Row, mixed_topic, new_topic, publish, sdk_rows, spark_rows, without

SECONDS = 60


class Following:
    """A query that keeps the rows it gets; `through` returns when everything there is now has come through."""

    def __init__(self, frame: DataFrame, checkpoint: Path, **trigger: Any) -> None:
        self.batches: list[list[Row]] = []
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = (writer.trigger(**trigger) if trigger else writer).start()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.batches.append(spark_rows(frame))

    def through(self) -> list[Row]:
        self.query.processAllAvailable()
        return self.rows

    def to_the_end(self) -> list[Row]:
        assert self.query.awaitTermination(SECONDS)
        return self.rows

    @property
    def rows(self) -> list[Row]:
        return sorted(row for batch in self.batches for row in batch)


@pytest.fixture
def follow(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> Iterator[Callable[..., Following]]:
    queries: list[Following] = []

    def follow(trigger: dict[str, Any] | None = None, **options: Any) -> Following:
        words = {"bootstrap": spark_broker.address, **options}
        frame = spark.readStream.format("quiver").options(**words).load()
        queries.append(Following(frame, tmp_path / "checkpoint", **(trigger or {})))
        return queries[-1]

    yield follow
    for each in queries:
        each.query.stop()


def test_all_there_is_in_limited_batches(follow: Callable[..., Following], spark_broker: BrokerProcess) -> None:
    topic, aborted = mixed_topic(spark_broker)
    expected = sorted(without(sdk_rows(spark_broker, topic), aborted))
    now = {"availableNow": True}
    first = follow(now, topic=topic, maxRowsPerTrigger=400)
    assert first.to_the_end() == expected
    assert len(first.batches) >= len(expected) // 400
    assert max(map(len, first.batches)) <= 400
    progress = first.query.recentProgress
    assert sum(batch.numInputRows for batch in progress) == len(expected)
    assert all(batch.processedRowsPerSecond > 0 for batch in progress if batch.numInputRows)
    publish(spark_broker, topic, 50)
    second = follow(now, topic=topic, maxRowsPerTrigger=400)
    assert len(second.to_the_end()) == 50
    assert second.rows == sorted(without(sdk_rows(spark_broker, topic), aborted | _places(expected)))


def _places(rows: list[Row]) -> set[tuple[int, int]]:
    return {(row.partition, row.offset) for row in rows}


def test_new_partitions_and_topics_appear(follow: Callable[..., Following], spark_broker: BrokerProcess) -> None:
    first = new_topic(spark_broker, partitions=1)
    publish(spark_broker, first, 10)
    family = follow(topicPattern=f"{first}(-more)?")
    assert family.through() == sdk_rows(spark_broker, first)
    with quiver.connect(spark_broker.address) as client:
        client.topics.add_partitions(first, 3)
        client.topics.create(f"{first}-more", partitions=2)
    publish(spark_broker, first, 10, partition=2)
    publish(spark_broker, f"{first}-more", 10)
    everything = sorted(sdk_rows(spark_broker, first) + sdk_rows(spark_broker, f"{first}-more"))
    assert len(everything) == 30
    assert family.through() == everything


def test_a_start_that_is_fixed_when_the_query_begins(
    follow: Callable[..., Following], spark_broker: BrokerProcess
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    query = follow(topic=topic, start="latest")
    assert query.through() == []
    publish(spark_broker, topic, 5)
    assert [row.offset for row in query.through()] == list(range(10, 15))


def test_retention_during_a_query(follow: Callable[..., Following], spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 20)
    begun = follow({"availableNow": True}, topic=topic)
    assert len(begun.to_the_end()) == 20
    publish(spark_broker, topic, 20)
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(topic)
    publish(spark_broker, topic, 7)
    rest = sdk_rows(spark_broker, topic)
    with pytest.raises(StreamingQueryException, match=rf"offsets 20 to {rest[0].offset} of {topic}-0 are gone"):
        follow({"availableNow": True}, topic=topic).to_the_end()
    going_on = follow({"availableNow": True}, topic=topic, failOnDataLoss="false")
    assert going_on.to_the_end() == rest


def test_a_topic_made_anew(follow: Callable[..., Following], spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 20)
    assert len(follow({"availableNow": True}, topic=topic).to_the_end()) == 20
    with quiver.connect(spark_broker.address) as client:
        client.topics.delete(topic)
        client.topics.create(topic, partitions=1)
    publish(spark_broker, topic, 5)
    with pytest.raises(StreamingQueryException, match="it lost messages or was made anew"):
        follow({"availableNow": True}, topic=topic).to_the_end()
    anew = follow({"availableNow": True}, topic=topic, failOnDataLoss="false")
    assert anew.to_the_end() == sdk_rows(spark_broker, topic)


def test_the_broker_stops_and_comes_back(
    follow: Callable[..., Following], start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker("--native-port", str(free_port()))
    topic = new_topic(broker, partitions=1)
    publish(broker, topic, 10)
    query = follow(topic=topic, bootstrap=broker.address, timeout="1s")
    assert len(query.through()) == 10
    broker.kill()
    with pytest.raises(StreamingQueryException, match="is the broker running there"):
        query.to_the_end()
    broker.start()
    publish(broker, topic, 10)
    again = follow(topic=topic, bootstrap=broker.address)
    assert [row.offset for row in again.through()] == list(range(10, 20))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"end": "latest"}, "option 'end' is for batch reads"),
        ({"maxRowsPerTrigger": "none"}, "not a whole number"),
    ],
)
def test_wrong_options_of_a_stream(follow: Callable[..., Following], options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match=says):
        follow(topic="t", **options).to_the_end()
