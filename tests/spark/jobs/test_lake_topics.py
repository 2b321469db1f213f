"""Topics side by side in a lake: namesakes are told apart, a lost file harms its own topic, names go by a rule."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import CorruptData, InvalidRequest
from quiver_spark.jobs import archive, audit, replay
from quiver_spark.jobs.arguments import batch_read_options
from quiver_spark.lake.files import PARTITION_COLUMNS, LakeFile
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.parquet_file import FileForm
from quiver_spark.lake.reading import lake_frame
from quiver_spark.lake.schema import FRAME_SCHEMA, OLDEST_SCHEMA
from quiver_spark.lake.slice_files import SliceFiles
from quiver_spark.lake.storage.place import lake_place
from quiver_spark.lake.storage.store import open_store
from quiver_spark.lake.table import Advance
from quiver_spark.source.catalogue import plan
from quiver_spark.source.frames import read_slice
from spark.lake_rows import lake_files, lake_rows
from spark.topic_rows import new_topic, publish, sdk_rows, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def put(spark: "SparkSession", spark_broker: BrokerProcess, lake: Path) -> Callable[..., Any]:
    def put(*topics: str, **settings: Any) -> Any:
        source = {"topics": ",".join(topics), "bootstrap": spark_broker.address, "failOnDataLoss": "false"}
        return archive.run(spark, source, lake, **settings)

    return put


@pytest.fixture
def replayed(spark: "SparkSession", spark_broker: BrokerProcess, lake: Path) -> Callable[..., list[str]]:
    """The values that a replay writes, in order."""

    def replayed(topic: str, *, source: dict[str, Any] | None = None, **settings: Any) -> list[str]:
        target = new_topic(spark_broker, partitions=1)
        options = {"topic": topic, "bootstrap": spark_broker.address, **(source or {})}
        replay.run(spark, options, target, lake=lake, **settings)
        return [(row.value or b"").decode() for row in sdk_rows(spark_broker, target)]

    return replayed


def _said(client: quiver.Client, topic: str, *values: str) -> None:
    for value in values:
        client.publish(topic, value, key="k")


def test_a_topic_that_was_made_again_under_its_name(
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: Path,
    put: Callable[..., Any],
    replayed: Callable[..., list[str]],
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    with quiver.connect(spark_broker.address) as client:
        for made in ("old", "new"):
            if made == "new":
                client.topics.delete(topic)
                client.topics.create(topic, partitions=1)
            for part in range(2):
                _said(client, topic, *(f"{made}{part * 3 + n}" for n in range(3)))
                put(topic, compact_small_files=part == 1)
        new_id = client.topics.describe(topic).id
    expected = [f"{made}{n}" for made in ("old", "new") for n in range(6)]
    rows = DeltaTable(str(lake)).to_pyarrow_table().sort_by([("topic_id", "ascending"), ("offset", "ascending")])
    assert [value.decode() for value in rows.column("value").to_pylist()] == expected
    assert [file.rows for file in lake_files(lake)] == [6, 6], "small files are joined, of each topic by itself"
    assert replayed(topic) == expected
    assert replayed(topic, rate=2) == expected, "in small batches"
    assert replayed(topic, topic_id=new_id) == expected[6:]
    assert replayed(topic, topic_id=new_id, source={"start": 4}) == expected[10:]
    with pytest.raises(InvalidRequest, match=rf"several topics that were named '{topic}'.*topic_id \(--topic-id\)"):
        replayed(topic, source={"start": 4})
    with pytest.raises(InvalidRequest, match="nothing of a topic with id 0; it has the ids"):
        replayed(topic, topic_id=0)
    found = audit.run(spark, {"topic": topic, "bootstrap": spark_broker.address}, lake=lake, deep=True)
    assert found.is_clean, found.findings


def test_a_lake_of_an_earlier_version_goes_on(
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: Path,
    put: Callable[..., Any],
    replayed: Callable[..., list[str]],
) -> None:
    """Its files have no topic id, nor has the table."""
    topic = new_topic(spark_broker, partitions=1)
    with quiver.connect(spark_broker.address) as client:
        _said(client, topic, "a", "b")
        _archive_without_ids(spark_broker, lake, topic)
        assert replayed(topic) == ["a", "b"]
        _said(client, topic, "c")
        put(topic)
    assert [file.topic_id is None for file in lake_files(lake)] == [True, False]
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)
    assert [row.topic_id is None for row in lake_frame(spark, open_lake(lake)).orderBy("offset").collect()] == [
        True,
        True,
        False,
    ]
    assert replayed(topic) == ["a", "b", "c"]
    assert replayed(topic, source={"start": 1}) == ["b", "c"]
    found = audit.run(spark, {"topic": topic, "bootstrap": spark_broker.address}, lake=lake, deep=True)
    assert found.is_clean, found.findings


def _archive_without_ids(broker: BrokerProcess, lake: Path, topic: str) -> None:
    lake.mkdir()
    DeltaTable.create(str(lake), schema=OLDEST_SCHEMA, partition_by=list(PARTITION_COLUMNS))
    options = batch_read_options({"topic": topic, "bootstrap": broker.address})
    for slice_ in plan(options, cores=1):
        common = LakeFile(topic, "", slice_.partition, slice_.start, slice_.stop, "old")
        with SliceFiles(open_store(lake_place(lake)), common, FileForm(FRAME_SCHEMA)) as files:
            for batch in read_slice(slice_, options, FRAME_SCHEMA.names):
                files.add(batch)
            step = Advance(topic, slice_.topic_id, slice_.partition, None, slice_.stop)
            open_lake(lake).commit(files.finish(), [step], {"job": "archive"})


def test_a_lost_file_harms_its_own_topic(
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: Path,
    put: Callable[..., Any],
    replayed: Callable[..., list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    harmed, sound = new_topic(spark_broker, partitions=1), new_topic(spark_broker, partitions=1)
    for topic in (harmed, sound):
        publish(spark_broker, topic, 10)
    put(harmed, sound)
    lost = next(file for file in lake_files(lake) if file.topic == harmed)
    (lake / lost.path).unlink()
    for topic in (harmed, sound):
        publish(spark_broker, topic, 5)
    assert put(harmed, sound, compact_small_files=True).details["files_joined"] == 2
    assert lost.path in caplog.text
    table = open_lake(lake)
    assert sorted_rows(lake_frame(spark, table, topics=[sound]).collect()) == sdk_rows(spark_broker, sound)
    assert len(replayed(sound)) == 15
    says = rf"has lost 1 of its files, of the topics {harmed}: the first is {lost.path} with 10 messages"
    with pytest.raises(CorruptData, match=says):
        lake_frame(spark, table)
    with pytest.raises(CorruptData, match=says):
        replayed(harmed)


def test_fields_whose_names_differ_by_case(
    spark: "SparkSession", spark_broker: BrokerProcess, lake: Path, put: Callable[..., Any]
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    with quiver.connect(spark_broker.address) as client:
        client.publish(topic, {"Topic": "x", "Id": 1, "id": 2, "in": {"A": 1, "a": 2}})
        put(topic, infer_schema=True)
        client.publish(topic, {"id": 3, "ID": 4, "late": True})
        put(topic, infer_schema=True)
    rows = lake_frame(spark, open_lake(lake)).orderBy("offset").collect()
    assert [(row.json_Topic, row.Id, row.late) for row in rows] == [("x", 1, None), (None, None, True)]
    assert rows[0]["in"].asDict() == {"A": 1}
    assert b'"id":2' in bytes(rows[0].value)
