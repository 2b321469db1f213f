"""A query whose checkpoint was put back or partly removed: the sink drops no row in silence and writes none twice."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import quiver
from blackbox.durability.test_clock import ShiftedBroker
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import archive
from quiver_spark.sink.batch_offsets import describe, source_offsets
from spark.topic_rows import new_topic, sdk_rows

_SECONDS = 120
DAY_SECONDS = 86_400
NOT_THE_SAME = r"micro-batch 1 of this query was written before with other rows.* Restore the latest checkpoint"


class Rewound:
    """A query that copies a topic, except for some values; its checkpoint can be put back."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, place: Path) -> None:
        self._spark, self._broker = spark, broker
        self.source, self.target = new_topic(broker, partitions=1), new_topic(broker, partitions=1)
        self.checkpoint, self._backup = place / "checkpoint", place / "backup"

    def publish(self, *values: str) -> None:
        with quiver.connect(self._broker.address) as client:
            for value in values:
                client.publish(self.source, value)

    def run(self, *values: str, leave_out: str = "none") -> StreamingQuery:
        self.publish(*values)
        common = {"bootstrap": self._broker.address}
        reading = {**common, "topic": self.source, "failOnDataLoss": "false"}
        rows = self._spark.readStream.format("quiver").options(**reading).load().select("key", "value")
        rows = rows.where(f"CAST(value AS STRING) != '{leave_out}'")
        writer = rows.writeStream.format("quiver").options(**common, topic=self.target)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(_SECONDS)
        return query

    def back_up(self) -> None:
        shutil.copytree(self.checkpoint, self._backup)

    def put_back(self) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self._backup, self.checkpoint)

    def move(self) -> None:
        """The checkpoint goes on in another place."""
        place = self.checkpoint.with_name(f"{self.checkpoint.name}-moved")
        self.checkpoint = self.checkpoint.rename(place)

    def written(self) -> list[str]:
        return [(row.value or b"").decode() for row in sdk_rows(self._broker, self.target)]


@pytest.fixture
def rewound(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> Rewound:
    """With a copy of the checkpoint after its first batch, `a`."""
    query = Rewound(spark, spark_broker, tmp_path)
    query.run("a")
    query.back_up()
    return query


def test_a_checkpoint_that_was_put_back_moved_cut_off_and_emptied(rewound: Rewound) -> None:
    rewound.run("b")
    rewound.put_back()
    rewound.move()
    rewound.run()
    assert rewound.written() == ["a", "b"], "the same batch again is a replay"
    rewound.put_back()
    with pytest.raises(PySparkException, match=NOT_THE_SAME):
        rewound.run("c")
    assert rewound.written() == ["a", "b"]
    cut = rewound.checkpoint / "offsets" / "0"
    cut.write_bytes(cut.read_bytes()[:-1])
    with pytest.raises(PySparkException, match="JSONDecodeError"):
        rewound.run()
    for lost in ("offsets", "commits"):
        shutil.rmtree(rewound.checkpoint / lost)
    with pytest.raises(PySparkException, match=NOT_THE_SAME.replace("1", "0")):
        rewound.run()
    assert rewound.written() == ["a", "b"], "the query keeps its id and counts its batches from the beginning"


def test_as_many_rows_up_to_other_offsets_are_not_the_same(rewound: Rewound, spark_broker: BrokerProcess) -> None:
    rewound.run("b")
    rewound.put_back()
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(rewound.source)
    with pytest.raises(PySparkException, match=NOT_THE_SAME):
        rewound.run("c")
    assert rewound.written() == ["a", "b"]


def test_a_batch_without_rows_keeps_its_key(rewound: Rewound) -> None:
    rewound.run("b", leave_out="b")
    rewound.run("c")
    assert rewound.written() == ["a", "c"]
    rewound.put_back()
    with pytest.raises(PySparkException, match=NOT_THE_SAME):
        rewound.run("d")
    assert rewound.written() == ["a", "c"]


def test_a_broker_whose_clock_is_wrong(
    spark: SparkSession, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """A day behind the driver, then a day ahead: the query and an archive have each row once."""
    shifted = ShiftedBroker(start_broker, tmp_path)
    query, archived = Rewound(spark, shifted.process, tmp_path), 0
    for value, days in (("a", -1), ("b", 1)):
        shifted.move(days * DAY_SECONDS)
        query.run(value)
        source = {"topic": query.target, "bootstrap": shifted.process.address}
        archived += archive.run(spark, source, tmp_path / "lake").rows
    assert query.written() == ["a", "b"]
    assert archived == 2


def test_a_batch_write_with_a_key_that_was_used_for_other_rows(
    spark: SparkSession, spark_broker: BrokerProcess
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    options = {"bootstrap": spark_broker.address, "topic": topic, "commitKey": f"day 1 of {topic}"}

    def write(rows: int) -> None:
        values = spark.range(rows).selectExpr("CAST(id AS STRING) AS value")
        values.write.format("quiver").options(**options).mode("append").save()

    write(3)
    write(3)
    with pytest.raises(PySparkException, match=r"'day 1 of .* had other rows .*'3 rows'.*'5 rows'.* a key of their"):
        write(5)
    assert len(sdk_rows(spark_broker, topic)) == 3


def test_what_a_batch_is_known_by(tmp_path: Path) -> None:
    assert (describe(1), describe(2)) == ("1 row", "2 rows")
    assert describe(2, '{"t":{"0":5}}') == '2 rows up to {"t":{"0":5}}'
    assert describe(2, "x" * 1000) != describe(2, "y" * 1000)
    assert len(describe(2, "x" * 1000)) < 100
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchTimestampMs":1}\n{"t":{"0":5}}\n-\n')
    for place in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert source_offsets(place, 3) == '{"t":{"0":5}} -'
    for place in (None, "hdfs://host/path", str(tmp_path / "nowhere")):
        assert source_offsets(place, 3) is None
