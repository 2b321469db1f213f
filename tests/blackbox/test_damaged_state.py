"""Damage beside the segments: indexes, producer snapshots, the topics' metadata, the small files of the storage."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.broker_process import BrokerExited, BrokerProcess
from blackbox.data_files import append_bytes, flip_bit, topic_directory
from blackbox.native_wire import NativeWire
from blackbox.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import Produced

PER_PARTITION = 1500
SEGMENT_BYTES = 64 * 1024


def _fill_segments(broker: BrokerProcess, partitions: int) -> None:
    """Several segments in every partition, in small frames, so that the indexes have many entries."""
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=partitions, segment_bytes=SEGMENT_BYTES, durability="interval")
        for start in range(0, PER_PARTITION, 10):
            with q.producer("orders") as producer:
                for partition in range(partitions):
                    for number in range(start, start + 10):
                        producer.send(b"%0100d" % number, partition=partition)


def _numbers(q: Any, partition: int, start: int | str) -> list[int]:
    return [int(message.value) for message in q.read("orders", start=start, end="latest", partitions=[partition])]


def _damages(path: Path) -> Iterator[Callable[[], None]]:
    """Ways to damage a file, each of them a call."""
    size = path.stat().st_size
    chance = random.Random(7)
    for _ in range(8):
        yield lambda at=chance.randrange(size), bit=chance.randrange(8): flip_bit(path, at, bit)  # type: ignore[misc]
    yield path.unlink
    yield lambda: path.write_bytes(b"")
    yield lambda: path.write_bytes(path.read_bytes()[: size // 2 + 3])
    yield lambda: append_bytes(path, chance.randbytes(100))
    yield lambda: path.write_bytes(bytes(size))
    yield lambda: path.write_bytes(chance.randbytes(size))


def test_damaged_indexes_are_found_out_and_made_anew(broker: BrokerProcess) -> None:
    _fill_segments(broker, 14)
    assert broker.terminate() == 0
    for partition in range(14):
        for index in sorted((topic_directory(broker.data_dir) / str(partition)).glob("*.index")):
            if index.stat().st_size:
                list(_damages(index))[partition]()
    broker.start()
    chance = random.Random(1)
    with quiver.connect(broker.address) as q:
        for partition in range(14):
            for start in (0, PER_PARTITION - 1, *chance.sample(range(PER_PARTITION), 3)):
                assert _numbers(q, partition, start) == list(range(start, PER_PARTITION)), f"partition {partition}"
            assert _numbers(q, partition, "-1h") == list(range(PER_PARTITION)), f"partition {partition}"
            assert q.publish("orders", b"%d" % PER_PARTITION, partition=partition).offset >= PER_PARTITION


@pytest.mark.parametrize("way", range(14))
def test_damaged_producer_snapshots_lose_neither_data_nor_deduplication(broker: BrokerProcess, way: int) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
    with (
        TcpProxy(broker.address, lambda count: Fault.PASS) as proxy,
        quiver.connect(proxy.address) as q,
        q.producer("orders") as producer,
    ):
        for number in range(3):
            producer.send(b"%d" % number).result(10)
    assert broker.terminate() == 0
    for snapshot in topic_directory(broker.data_dir).rglob("*.snapshot"):
        list(_damages(snapshot))[way]()
    broker.start()
    answers = []
    for request in proxy.produce_requests:
        with NativeWire(broker.address) as wire:
            wire.socket.sendall(request)
            answers.append(wire.answer())
    assert answers == [Produced(n, answer.append_time_ms, duplicate=True) for n, answer in enumerate(answers)]
    with quiver.connect(broker.address) as q:
        assert _numbers(q, 0, 0) == [0, 1, 2]


def _metadata_files(data_dir: Path) -> list[Path]:
    return sorted(path for path in (data_dir / "logs" / "internal").rglob("*") if path.is_file())


@pytest.fixture
def stopped_with_topics(broker: BrokerProcess) -> BrokerProcess:
    with quiver.connect(broker.address) as q:
        for name in ("a", "b", "c"):
            q.topics.create(name, partitions=2)
            q.publish(name, b"hello", partition=0)
    assert broker.terminate() == 0
    return broker


@pytest.mark.parametrize("way", range(14))
def test_damaged_metadata_never_means_that_there_are_no_topics(stopped_with_topics: BrokerProcess, way: int) -> None:
    """Either every topic is there, or the broker says what is damaged and leaves everything as it is."""
    broker = stopped_with_topics
    kept = broker.data_dir.with_name("kept")
    shutil.copytree(broker.data_dir, kept)
    for path in _metadata_files(broker.data_dir):
        if path.stat().st_size and path.suffix in (".log", ".snapshot"):
            list(_damages(path))[way]()
    data_files = sorted((broker.data_dir / "logs" / "topics").rglob("*.log"))
    try:
        broker.start()
    except BrokerExited as refusal:
        assert refusal.status not in (0, -6, -11)
        assert "damage" in refusal.log or "corrupt" in refusal.log.lower()
        assert "Traceback" not in refusal.log
        assert sorted((broker.data_dir / "logs" / "topics").rglob("*.log")) == data_files
    else:
        with quiver.connect(broker.address) as q:
            for name in ("a", "b", "c"):
                assert [m.value for m in q.read(name, end="latest")] == [b"hello"]
        assert broker.terminate() == 0
    shutil.rmtree(broker.data_dir)
    kept.rename(broker.data_dir)
    broker.start()
    assert broker.request("GET", "/topics") == (200, {"topics": ["a", "b", "c"]})
