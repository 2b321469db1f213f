"""Streaming reads: nothing is missed and nothing comes twice, whatever happens to the topic meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import LongType, StructType

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import DescribeTopic
from quiver_spark.source.stream_reader import StreamReader
from spark.topic_rows import Row, mixed_topic, new_topic, publish, sdk_rows, spark_rows, without

SECONDS = 60


class Following:
    """A query that keeps the rows it gets; `through` returns when everything there is now has come through."""

    def __init__(
        self, frame: DataFrame, checkpoint: Path, after_batch: Callable[[int], None], **trigger: Any
    ) -> None:
        self.batches: list[list[Row]] = []
        self._after_batch = after_batch
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = (writer.trigger(**trigger) if trigger else writer).start()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.batches.append(spark_rows(frame))
        self._after_batch(batch)

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

    def follow(
        trigger: dict[str, Any] | None = None,
        after_batch: Callable[[int], None] = lambda batch: None,
        **options: Any,
    ) -> Following:
        words = {"bootstrap": spark_broker.address, **options}
        frame = spark.readStream.format("quiver").options(**words).load()
        queries.append(Following(frame, tmp_path / "checkpoint", after_batch, **(trigger or {})))
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


def test_retention_during_a_query(follow: Callable[..., Following], spark_broker: BrokerProcess) -> None:
    """It removes what the query would have read next."""
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 20)

    def remove(batch: int) -> None:
        with quiver.connect(spark_broker.address) as client:
            client.topics.purge(topic)
        publish(spark_broker, topic, 7)

    running = follow(topic=topic, maxRowsPerTrigger=12, after_batch=remove)
    with pytest.raises(StreamingQueryException, match=rf"offsets 12 to 19 of {topic}-0 are gone: retention removed"):
        running.to_the_end()
    assert [row.offset for row in running.rows] == list(range(12))
    rest = sdk_rows(spark_broker, topic)
    assert len(rest) == 7
    going_on = follow({"availableNow": True}, topic=topic, failOnDataLoss="false")
    assert going_on.to_the_end() == rest


def test_what_is_wrong_with_a_stream_is_said(follow: Callable[..., Following]) -> None:
    """What each option takes is checked in tests/unit/spark; here, that Spark's users hear of it."""
    with pytest.raises(Exception, match="option 'end' is for batch reads"):
        follow(topic="t", end="latest").to_the_end()
    with pytest.raises(StreamingQueryException, match="there is no topic 'no-such-topic'; create it first"):
        follow(topic="no-such-topic").to_the_end()


class Planned:
    """The stream reader as Spark calls it, one micro-batch after the other, without Spark."""

    def __init__(self, broker: BrokerProcess | TcpProxy, **options: str) -> None:
        schema = StructType().add("offset", LongType())
        self._reader = StreamReader({"bootstrap": broker.address, **options}, schema)
        self.at: dict[str, Any] = {}

    def begin(self) -> "Planned":
        self.at = self._reader.initialOffset()
        return self

    def offsets(self, before_slices: Callable[[], None] = lambda: None) -> list[int]:
        """What the next batch has."""
        end = self._reader.latestOffset(self.at, self._reader.getDefaultReadLimit())
        before_slices()
        tasks = self._reader.partitions(self.at, end)
        batches = [batch for task in tasks for batch in self._reader.read(task)]
        self.at = end
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_start_that_is_fixed_when_the_query_begins(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    query = Planned(spark_broker, topic=topic, start="latest").begin()
    assert query.offsets() == []
    publish(spark_broker, topic, 5)
    assert query.offsets() == list(range(10, 15))


@pytest.mark.parametrize("count", [5, 30], ids=["shorter", "longer"])
def test_a_topic_created_again(spark_broker: BrokerProcess, count: int) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 20)
    query = Planned(spark_broker, topic=topic).begin()
    assert query.offsets() == list(range(20))
    with quiver.connect(spark_broker.address) as client:
        client.topics.delete(topic)
        client.topics.create(topic, partitions=1)
    publish(spark_broker, topic, count)
    with pytest.raises(quiver.errors.TopicNotFound, match=f"topic '{topic}' was deleted and created again"):
        query.offsets()
    resumed = Planned(spark_broker, topic=topic, failOnDataLoss="false")
    resumed.at = query.at
    assert resumed.offsets() == list(range(count))
    assert resumed.offsets() == []


def test_a_topic_created_again_while_a_batch_is_planned(spark_broker: BrokerProcess) -> None:
    """The batch is in the checkpoint, and what it was to have is gone."""
    topic = new_topic(spark_broker, partitions=1)
    query = Planned(spark_broker, topic=topic, failOnDataLoss="false").begin()
    publish(spark_broker, topic, 20)
    with quiver.connect(spark_broker.address) as client:

        def create_again() -> None:
            client.topics.delete(topic)
            client.topics.create(topic, partitions=1)
            publish(spark_broker, topic, 7)

        assert query.offsets(before_slices=create_again) == []
    assert query.offsets() == list(range(7))


@pytest.mark.parametrize("while_planned", [False, True], ids=["between batches", "while a batch is planned"])
def test_a_named_topic_that_is_deleted(spark_broker: BrokerProcess, while_planned: bool) -> None:
    kept, topic = new_topic(spark_broker, partitions=1), new_topic(spark_broker, partitions=1)
    names = f"{kept},{topic}"
    query = Planned(spark_broker, topics=names, failOnDataLoss="false").begin()
    publish(spark_broker, topic, 20)
    publish(spark_broker, kept, 5)
    assert sorted(query.offsets()) == sorted([*range(20), *range(5)])
    publish(spark_broker, topic, 3)
    publish(spark_broker, kept, 2)
    with quiver.connect(spark_broker.address) as client:
        if while_planned:
            assert query.offsets(before_slices=lambda: client.topics.delete(topic)) == [5, 6]
        else:
            client.topics.delete(topic)
            assert query.offsets() == [5, 6]
        publish(spark_broker, kept, 1)
        assert query.offsets() == [7]
        strict = Planned(spark_broker, topics=names)
        strict.at = query.at
        with pytest.raises(quiver.errors.TopicNotFound, match=f"topic '{topic}' of this query is gone; set failOn"):
            strict.offsets()
        with pytest.raises(quiver.errors.TopicNotFound, match=f"there is no topic '{topic}'"):
            Planned(spark_broker, topics=names, failOnDataLoss="false").begin()
        client.topics.create(topic, partitions=1)
        publish(spark_broker, topic, 4)
        assert query.offsets() == [0, 1, 2, 3]


def test_an_end_that_is_named_too_early(spark_broker: BrokerProcess) -> None:
    """As by a leader of a cluster that was deposed and does not know it: the next look says what there is."""
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 10)
    looks: list[int] = []

    def look(count: int) -> Fault:
        looks.append(count)
        if count == 2:
            publish(spark_broker, topic, 10)
        return Fault.PASS

    with quiver.connect(spark_broker.address) as client:
        topic_id = client.topics.describe(topic).id
    with TcpProxy(spark_broker.address, look, kinds=(DescribeTopic,)) as proxy:
        query = Planned(proxy, topic=topic)
        query.at = {topic: {"id": topic_id, "0": 15}}
        assert query.offsets() == list(range(15, 20))
    assert len(looks) == 2


def test_a_stream_starts_at_places_that_exist(spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    with pytest.raises(quiver.errors.InvalidRequest, match="option 'start' names partition 7, which does not exist"):
        Planned(spark_broker, topic=topic, start='{"7": 4}').begin()
