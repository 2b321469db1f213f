"""Topics with every kind of message, and their rows as the SDK and as Spark give them."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

import quiver
from blackbox.cluster.replicated_nodes import Nodes
from blackbox.processes.broker_process import BrokerProcess
from quiver.system.clock import SystemClock
from quiver_spark.source.catalogue import plan
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import read_options

_NAMES = (f"rows-{number}" for number in itertools.count())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    append_time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    priority: str


def new_topic(broker: BrokerProcess | Nodes, **settings: Any) -> str:
    name = next(_NAMES)
    with quiver.connect(broker.address) as client:
        client.topics.create(name, **{"partitions": 2, **settings})
    return name


def publish(broker: BrokerProcess | Nodes, topic: str, count: int, **options: Any) -> None:
    """`count` messages `v0`, `v1` ... with keys, all in one partition if it is named."""
    with quiver.connect(broker.address) as client, client.producer(topic) as producer:
        producer.send_many([b"v%d" % n for n in range(count)], [b"k%d" % (n % 7) for n in range(count)], **options)


def mixed_topic(broker: BrokerProcess) -> tuple[str, set[tuple[int, int]]]:
    """A topic with codecs, headers, nulls, tombstones, priorities, times and transactions in it.

    Also which (partition, offset) were aborted.
    """
    topic = new_topic(broker)
    with quiver.connect(broker.address) as client:
        for codec in ("none", "lz4", "zstd"):
            with client.producer(topic, compression=codec) as producer:
                _send_mixed(producer, codec.encode())
        aborted = _transactions(broker, topic)
        with client.producer(topic) as producer:
            _send_mixed(producer, b"last")
    return topic, aborted


def _send_mixed(producer: Any, word: bytes) -> None:
    producer.send_many([word + b"-%d" % n for n in range(300)], [b"key-%d" % (n % 11) for n in range(300)])
    producer.send_many([word] * 20, partition=0)
    producer.send(None, b"key-1")
    producer.send(b"", b"")
    producer.send(b"with headers", headers={"a": b"1", "b": b""})
    producer.send(b"with a time", b"key-2", timestamp="2026-01-31T12:00:00.123Z")
    for priority in ("critical", "low", "background"):
        producer.send_many([priority.encode()] * 5, partition=1, priority=priority)


def _transactions(broker: BrokerProcess, topic: str) -> set[tuple[int, int]]:
    """Two transactions side by side in both partitions, of which one is committed; twice."""
    aborted = set()
    keep, drop = _init(broker), _init(broker)
    for _ in range(2):
        for number, who in itertools.product(range(6), (keep, drop)):
            body = {**who, "topic": topic, "partition": number % 2, "value": f"in {who}", "key": "t"}
            status, answer = broker.request("POST", "/transactions/publish", body)
            assert status == 200, answer
            if who is drop:
                aborted.add((answer["partition"], answer["offset"]))
        keep = _end(broker, "commit", keep)
        publish(broker, topic, 3, partition=0)
        drop = _end(broker, "abort", drop)
    return aborted


def _init(broker: BrokerProcess) -> dict[str, int]:
    status, answer = broker.request("POST", "/producers/init", {})
    assert status == 200, answer
    return dict(answer)


def _end(broker: BrokerProcess, how: str, who: dict[str, int]) -> dict[str, int]:
    status, answer = broker.request("POST", f"/transactions/{how}", who)
    assert status == 200, answer
    return {"producer_id": answer["producer_id"], "epoch": answer["epoch"]}


def begin_transaction(broker: BrokerProcess, topic: str, partition: int, value: str) -> dict[str, int]:
    """A transaction with one message that stays open."""
    who = _init(broker)
    body = {**who, "topic": topic, "partition": partition, "value": value}
    status, answer = broker.request("POST", "/transactions/publish", body)
    assert status == 200, answer
    return who


def end_transaction(broker: BrokerProcess, how: str, who: dict[str, int]) -> None:
    _end(broker, how, who)


def sdk_rows(broker: BrokerProcess | Nodes, topic: str, start: Any = "earliest", end: Any = "latest") -> list[Row]:
    """Every row that the SDK reads, by partition and offset."""
    with quiver.connect(broker.address) as client, client.read(topic, start=start, end=end) as reader:
        found = [
            Row(
                message.topic,
                message.partition,
                message.offset,
                _ms(message.timestamp),
                _ms(message.append_time),
                message.key,
                message.value,
                tuple(sorted(message.headers.items())),
                message.priority,
            )
            for message in reader
        ]
    return sorted(found, key=lambda row: (row.partition, row.offset))


def spark_rows(frame: DataFrame) -> list[Row]:
    """Every row of a DataFrame with all columns, by partition and offset."""
    return sorted_rows(frame.collect())


def sorted_rows(rows: Iterable[Any]) -> list[Row]:
    """Rows of Spark with all columns, by partition and offset."""
    return sorted((_row(row) for row in rows), key=lambda row: (row.topic, row.partition, row.offset))


def read_rows(**words: object) -> list[Row]:
    """What a batch read with these options gives, slice by slice and without Spark; through the broker, if one is
    named and nothing else is said."""
    given = {"localFiles": "false"} | {name: str(word) for name, word in words.items()}
    options = read_options(given, now_ms=SystemClock().now_ms())
    found = []
    for slice_ in plan(options, cores=2):
        for batch in read_slice(slice_, options):
            for row in batch.to_pylist():
                headers = tuple(sorted(dict(row["headers"] or ()).items()))
                times = [_ms(row[name]) for name in ("timestamp", "append_time")]
                place = (row["topic"], row["partition"], row["offset"])
                found.append(Row(*place, *times, row["key"], row["value"], headers, row["priority"]))
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def _row(row: Any) -> Row:
    return Row(
        row.topic,
        row.partition,
        row.offset,
        _ms(row.timestamp),
        _ms(row.append_time),
        None if row.key is None else bytes(row.key),
        None if row.value is None else bytes(row.value),
        tuple(sorted((name, bytes(value)) for name, value in (row.headers or {}).items())),
        row.priority,
    )


def _ms(moment: Any) -> int:
    if isinstance(moment, int):
        return moment
    moment = moment if moment.tzinfo else moment.astimezone(UTC)
    return int((moment - _EPOCH) // timedelta(milliseconds=1))


def without(rows: Iterable[Row], left_out: set[tuple[int, int]]) -> list[Row]:
    return [row for row in rows if (row.partition, row.offset) not in left_out]
