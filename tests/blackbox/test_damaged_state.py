"""Damage beside the segments: indexes, producer snapshots, the topics' metadata, the small files of the storage."""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.broker_process import BrokerExited, BrokerProcess
from blackbox.data_files import flip_bit, topic_directory
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


def _damages(path: Path) -> list[Callable[[], object]]:
    """Ways to damage a file, each of them a call."""
    data, chance = path.read_bytes(), random.Random(7)
    flips = [partial(flip_bit, path, chance.randrange(len(data)), chance.randrange(8)) for _ in range(8)]
    contents = [
        b"",
        data[: len(data) // 2 + 3],
        data + chance.randbytes(100),
        bytes(len(data)),
        chance.randbytes(len(data)),
    ]
    return [*flips, path.unlink, *(partial(path.write_bytes, content) for content in contents)]


WAYS = 14
TOPICS = ["a", "b", "c"]


def test_damaged_indexes_are_found_out_and_made_anew(broker: BrokerProcess) -> None:
    _fill_segments(broker, WAYS)
    assert broker.terminate() == 0
    for partition in range(WAYS):
        for index in sorted((topic_directory(broker.data_dir) / str(partition)).glob("*.index")):
            if index.stat().st_size:
                _damages(index)[partition]()
    broker.start()
    chance = random.Random(1)
    with quiver.connect(broker.address) as q:
        for partition in range(WAYS):
            for start in (0, PER_PARTITION - 1, *chance.sample(range(PER_PARTITION), 3)):
                assert _numbers(q, partition, start) == list(range(start, PER_PARTITION)), f"partition {partition}"
            assert _numbers(q, partition, "-1h") == list(range(PER_PARTITION)), f"partition {partition}"
            assert q.publish("orders", b"%d" % PER_PARTITION, partition=partition).offset >= PER_PARTITION


@pytest.mark.parametrize("way", range(WAYS))
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
        _damages(snapshot)[way]()
    broker.start()
    answers = []
    for request in proxy.produce_requests:
        with NativeWire(broker.address) as wire:
            wire.socket.sendall(request)
            answers.append(wire.answer())
    assert answers == [Produced(n, answer.append_time_ms, duplicate=True) for n, answer in enumerate(answers)]
    with quiver.connect(broker.address) as q:
        assert _numbers(q, 0, 0) == [0, 1, 2]


def _refusal(broker: BrokerProcess) -> BrokerExited | None:
    """Starts a broker; the way it refused, or None when it runs."""
    try:
        broker.start(ready=False)
    except BrokerExited as refusal:
        return refusal
    return None


def _metadata_files(data_dir: Path) -> list[Path]:
    return sorted(path for path in (data_dir / "logs" / "internal").rglob("*") if path.is_file())


@pytest.fixture
def stopped_with_topics(broker: BrokerProcess) -> BrokerProcess:
    with quiver.connect(broker.address) as q:
        for name in TOPICS:
            q.topics.create(name, partitions=2)
            q.publish(name, b"hello", partition=0)
    assert broker.terminate() == 0
    return broker


@pytest.mark.parametrize("way", range(WAYS))
def test_damaged_metadata_never_means_that_there_are_no_topics(stopped_with_topics: BrokerProcess, way: int) -> None:
    """Either every topic is there, or the broker says what is damaged and leaves everything as it is."""
    broker = stopped_with_topics
    kept = broker.data_dir.with_name("kept")
    shutil.copytree(broker.data_dir, kept)
    for path in _metadata_files(broker.data_dir):
        if path.stat().st_size and path.suffix in (".log", ".snapshot"):
            _damages(path)[way]()
    data_files = sorted((broker.data_dir / "logs" / "topics").rglob("*.log"))
    refusal = _refusal(broker)
    assert sorted((broker.data_dir / "logs" / "topics").rglob("*.log")) == data_files
    if refusal is None:
        with quiver.connect(broker.address) as q:
            for name in TOPICS:
                assert [m.value for m in q.read(name, end="latest")] == [b"hello"]
        assert broker.terminate() == 0
    else:
        assert refusal.status > 0
        assert "damaged data" in refusal.log
        assert "Traceback" not in refusal.log
    shutil.rmtree(broker.data_dir)
    kept.rename(broker.data_dir)
    broker.start()
    assert broker.request("GET", "/topics")[1]["topics"] == TOPICS
