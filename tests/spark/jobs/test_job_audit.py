"""The audit through its command line: nothing is wrong with a healthy broker, and what was damaged is named."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.data_files import flip_bit, partition_directory, segments, stored_frames
from quiver_spark.jobs import archive, audit
from spark.lake_rows import lake_files
from spark.topic_rows import begin_transaction, mixed_topic, new_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Audit = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> Audit:
    """The command line with words of the test's own; exit status and document."""

    def run(*words: object) -> tuple[int, dict[str, Any]]:
        status = audit.main([*map(str, words), "--output", "json"])
        said = capsys.readouterr()
        return status, json.loads(said.out) if status != 1 else {"error": said.err}

    return run


class Stopped(NamedTuple):
    topic: str
    data: Path
    lake: Path

    def copied(self, target: Path) -> "Stopped":
        return Stopped(self.topic, *(shutil.copytree(each, target / each.name) for each in (self.data, self.lake)))


@pytest.fixture(scope="module")
def stopped(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """The directory of a broker that was stopped, and the lake of its only topic."""
    root = tmp_path_factory.mktemp("audit")
    with BrokerProcess(root / "data") as broker:
        topic, _ = mixed_topic(broker)
        archive.run(spark, {"topic": topic, "bootstrap": broker.address}, root / "lake")
        begin_transaction(broker, topic, 1, "open")
        publish(broker, topic, 20)
        assert broker.terminate() == 0
    return Stopped(topic, root / "data", root / "lake")


def named(document: dict[str, Any]) -> list[tuple[int, str, int, int]]:
    return [
        (each["partition"], each["kind"], each["first_offset"], each["last_offset"]) for each in document["findings"]
    ]


def test_a_healthy_directory(run: Audit, stopped: Stopped) -> None:
    status, document = run(stopped.topic, "--path", stopped.data, "--lake", stopped.lake, "--deep")
    assert (status, document["findings"]) == (0, [])
    assert document["frames"] > document["markers"] == 8
    assert (document["partitions"], document["files"], document["lake_files"]) == (2, 2, 3)
    assert document["rows"] > sum(file.rows for file in lake_files(stopped.lake))


def test_damaged_files(run: Audit, stopped: Stopped, tmp_path: Path) -> None:
    """A byte flipped in a body and one in a header, a frame doubled, one cut out; by path and through the broker."""
    topic, data, _ = stopped.copied(tmp_path)
    path = segments(partition_directory(data, 0))[0]
    frames, content = stored_frames(path), path.read_bytes()
    doubled, gone = frames[6], frames[9]
    path.write_bytes(
        content[: doubled.end] + content[doubled.position : gone.position] + content[gone.end :],
    )
    flip_bit(path, frames[1].position + 150)
    flip_bit(path, frames[3].position + 50)
    status, document = run(topic, "--path", data)
    spans = {
        number: (frames[number].header.base_offset, frames[number].header.last_offset) for number in (1, 3, 6, 9)
    }
    assert status == 3
    assert {
        (0, "crc", *spans[1]), (0, "crc", *spans[3]), (0, "gap", *spans[9]), (0, "order", *spans[6]),
    } <= set(named(document))  # fmt: skip
    assert {kind for _, kind, *_ in named(document)} <= {"crc", "gap", "order", "duplicate", "lost"}
    assert [each["position"] for each in document["findings"] if each["kind"] == "crc"] == [
        frames[1].position,
        frames[3].position,
    ]
    status, part = run(topic, "--path", data, "--from", frames[4].header.base_offset, "--to", gone.header.base_offset)
    assert (status, {kind for _, kind, *_ in named(part)}) == (3, {"order", "duplicate"} & set(document["counts"]))
    with BrokerProcess(data) as broker:
        status, served = run(topic, "--bootstrap", broker.address)
    assert status == 3
    assert {(0, "crc", *spans[1]), (0, "crc", *spans[3]), (0, "gap", *spans[9])} <= set(named(served))


def test_a_damaged_lake(
    run: Audit, stopped: Stopped, tmp_path: Path, spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    topic, data, lake = stopped.copied(tmp_path)
    lost, cut, changed = sorted(lake_files(lake), key=lambda file: file.rows)
    (lake / lost.path).unlink()
    rows = pq.ParquetFile(lake / cut.path).read()
    pq.write_table(rows.slice(0, 10), lake / cut.path)
    table = pq.ParquetFile(lake / changed.path).read()
    values = [b"changed", *table.column("value").to_pylist()[1:]]
    pq.write_table(table.set_column(table.schema.get_field_index("value"), "value", [values]), lake / changed.path)
    missing = rows.column("offset").to_pylist()[10:]
    status, document = run(topic, "--path", data, "--lake", lake)
    assert status == 3
    found = {(each["kind"], each.get("file")): each for each in document["findings"]}
    assert found["lake-file", lost.path]["first_offset"] == lost.first_offset
    assert (cut.partition, "lake-missing", missing[0]) in {each[:3] for each in named(document)}
    assert set(document["counts"]) == {"lake-file", "lake-count", "lake-missing"}
    assert audit.main([topic, "--path", str(data), "--lake", str(lake), "--deep"]) == 3
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if "lake-content" in line]
    assert line.split()[:4] == [topic, str(changed.partition), "lake-content", str(changed.first_offset)]
    assert "value is not the same" in line


def busy(broker: BrokerProcess, table: str, short: str, ended: threading.Event, rounds: list[int]) -> None:
    with quiver.connect(broker.address) as client:
        client.publish(table, b"stays", key=b"first")
        while not ended.is_set() or len(rounds) < 2:
            begin_transaction(broker, short, 0, "open")
            for topic in (table, short):
                with client.producer(topic) as producer:
                    producer.send_many([b"v" * 300] * 400, [b"k%d" % (n % 17) for n in range(400)])
                    producer.send(b"later", b"delayed", delay="10ms")
            client.topics.compact(table)
            rounds.append(len(rounds))


def test_a_busy_broker(run: Audit, spark_broker: BrokerProcess) -> None:
    """Publishing, delays, transactions, compaction and retention go on meanwhile."""
    small = {"partitions": 1, "segment_bytes": 65_536}
    table = new_topic(spark_broker, cleanup="compact", **small)
    short = new_topic(spark_broker, retention_bytes=300_000, **small)
    ended, rounds = threading.Event(), list[int]()
    worker = threading.Thread(target=busy, args=(spark_broker, table, short, ended, rounds))
    worker.start()
    try:
        for place in (("--bootstrap", spark_broker.address), ("--path", spark_broker.data_dir)):
            status, document = run(table, short, *place)
            assert (status, document["findings"]) == (0, [])
    finally:
        ended.set()
        worker.join()
    assert len(rounds) > 1, "it did not fail"
    assert run(table, "--path", spark_broker.data_dir)[1]["explained"].keys() == {"compaction"}


def test_what_cannot_be_audited(run: Audit, stopped: Stopped) -> None:
    status, said = run("absent", "--path", stopped.data)
    assert (status, "there is no topic 'absent'" in said["error"]) == (1, True)
    status, said = run(stopped.topic, "--path", stopped.data, "--deep")
    assert (status, "name it" in said["error"]) == (1, True)
