"""The replay: what a lake or a topic has, in a topic again, once for each run."""

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest, QuiverError, TopicNotFound
from quiver.model.times import format_time
from quiver_spark.jobs import archive, replay
from quiver_spark.jobs.progress import Summary
from quiver_spark.jobs.replay.job import Replay
from spark.topic_rows import Row, mixed_topic, new_topic, publish, sdk_rows, without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunReplay = Callable[..., Summary]


@pytest.fixture
def run(spark: "SparkSession", spark_broker: BrokerProcess) -> RunReplay:
    def run(topic: str, to: str, *, source: dict[str, object] | None = None, **settings: Any) -> Summary:
        place = {"bootstrap": spark_broker.address}
        return replay.run(spark, {"topics": topic, **place, **(source or {})}, to, **settings)

    return run


@pytest.fixture
def lake(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> Callable[[str], Path]:
    def lake(topics: str) -> Path:
        archive.run(spark, {"topics": topics, "bootstrap": spark_broker.address}, tmp_path / "lake")
        return tmp_path / "lake"

    return lake


def kept(rows: list[Row]) -> list[tuple[object, ...]]:
    """What a replay keeps of messages."""
    return sorted(((row.key, row.value, row.headers, row.timestamp_ms, row.priority) for row in rows), key=repr)


def values_by_key(rows: list[Row]) -> dict[bytes | None, list[bytes | None]]:
    found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for row in rows:
        found[row.key].append(row.value)
    return found


def test_a_lake_into_a_topic(run: RunReplay, lake: Callable[[str], Path], spark_broker: BrokerProcess) -> None:
    topic, aborted = mixed_topic(spark_broker)
    expected, target = without(sdk_rows(spark_broker, topic), aborted), new_topic(spark_broker)
    summary = run(topic, target, lake=lake(topic))
    written = sdk_rows(spark_broker, target)
    assert summary.rows == len(expected)
    assert kept(written) == kept(expected)


def test_a_topic_into_the_same_partitions_of_another(run: RunReplay, spark_broker: BrokerProcess) -> None:
    topic, target = new_topic(spark_broker), new_topic(spark_broker)
    for _ in range(3):
        publish(spark_broker, topic, 200)
    run(topic, target, keep_partitions=True)
    before, after = sdk_rows(spark_broker, topic), sdk_rows(spark_broker, target)
    assert [(row.partition, row.key, row.value) for row in after] == [
        (row.partition, row.key, row.value) for row in before
    ], "order is kept too"


def test_messages_of_a_key_keep_their_order(run: RunReplay, spark_broker: BrokerProcess) -> None:
    topic, target = new_topic(spark_broker), new_topic(spark_broker, partitions=3)
    publish(spark_broker, topic, 500)
    run(topic, target)
    assert values_by_key(sdk_rows(spark_broker, target)) == values_by_key(sdk_rows(spark_broker, topic))


def test_what_is_selected(run: RunReplay, lake: Callable[[str], Path], spark_broker: BrokerProcess) -> None:
    topic, other = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, topic, 100, partition=0)
    publish(spark_broker, topic, 100, partition=1)
    publish(spark_broker, other, 10)
    everything = sdk_rows(spark_broker, topic)
    place = lake(f"{topic},{other}")

    def replayed(**settings: Any) -> list[tuple[object, ...]]:
        target = new_topic(spark_broker)
        counted = run(topic, target, dry_run=True, **settings).rows
        assert sdk_rows(spark_broker, target) == [], "a dry run writes nothing"
        assert run(topic, target, **settings).rows == counted
        return kept(sdk_rows(spark_broker, target))

    within = [row for row in everything if row.partition == 1 and 30 <= row.offset < 60 and row.key == b"k3"]
    for origin in ({}, {"lake": place}):
        selection: dict[str, Any] = {"source": {"start": 30, "end": 60}, "partitions": [1], "where": "key = 'k3'"}
        assert replayed(**selection, **origin) == kept(within)
    publish(spark_broker, topic, 20, partition=0)
    place, rows = lake(topic), sdk_rows(spark_broker, topic)
    since_ms = max(row.append_time_ms for row in rows)
    new = [row for row in rows if row.append_time_ms >= since_ms]
    for origin in ({}, {"lake": place}):
        assert replayed(source={"start": format_time(since_ms)}, **origin) == kept(new)


def test_a_run_repeated_writes_nothing_twice(
    run: RunReplay,
    lake: Callable[[str], Path],
    spark_broker: BrokerProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run of six batches that dies after the third was written and before that was noted, and is run again."""
    topic, target = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, topic, 300)
    place, expected = lake(topic), sdk_rows(spark_broker, topic)
    write = Replay.write

    def die(self: Replay, spark: Any, batch: Any, times: Any, number: int) -> int:
        rows = write(self, spark, batch, times, number)
        if number == 2:
            raise KeyboardInterrupt
        return rows

    settings: dict[str, Any] = {"lake": place, "run_id": "again", "rate": 10_000}
    monkeypatch.setattr("quiver_spark.jobs.replay.job.batch_rows", lambda rate: 50)
    with monkeypatch.context() as patch:
        patch.setattr(Replay, "write", die)
        with pytest.raises(KeyboardInterrupt):
            run(topic, target, **settings)
    assert 100 < len(sdk_rows(spark_broker, target)) < 300
    publish(spark_broker, topic, 50)
    lake(topic)
    run(topic, target, **settings)
    assert kept(sdk_rows(spark_broker, target)) == kept(expected), "what came since is not part of the run"
    assert run(topic, target, **settings).rows == 0
    assert len(sdk_rows(spark_broker, target)) == 300
    with pytest.raises(InvalidRequest, match="begun with other settings"):
        run(topic, target, where="offset > 3", **settings)


def test_a_run_without_an_id_is_a_new_one(run: RunReplay, spark_broker: BrokerProcess) -> None:
    topic, target = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, topic, 20)
    assert run(topic, target).details["run_id"] != run(topic, target).details["run_id"]
    assert len(sdk_rows(spark_broker, target)) == 40


def test_what_cannot_be_replayed(
    run: RunReplay, lake: Callable[[str], Path], spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 5)
    with pytest.raises(InvalidRequest, match="there is no lake in"):
        run(topic, topic, lake=tmp_path / "nowhere")
    with pytest.raises(InvalidRequest, match="has no topic 'other'"):
        run("other", topic, lake=lake(topic))
    with pytest.raises(TopicNotFound, match="nowhere"):
        run(topic, "nowhere")
    with pytest.raises(QuiverError, match="no_such_column"):
        run(topic, topic, where="no_such_column = 1")
    with pytest.raises(InvalidRequest, match="give a run id too"):
        run(topic, topic, state=tmp_path)


def test_the_command(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, target = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, topic, 30)
    words = [topic, "--into", target, "--bootstrap", spark_broker.address, "--output", "json"]
    words += ["--run-id", "first", "--state", str(tmp_path)]
    assert replay.main([*words, "--from", "5", "--partition", "0", "--dry-run"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["dry_run"] is True
    assert [f" of {topic}-0 (topic id " in name for name in said["ranges"]] == [True]
    for rows in (30, 0):
        assert replay.main([*words, "--rate", "100000", "--progress"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == rows
    with quiver.connect(spark_broker.address) as client:
        assert sum(behind - first for first, behind in client.topics.describe(target).offsets) >= 30
    assert len(sdk_rows(spark_broker, target)) == 30
