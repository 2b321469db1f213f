"""Damage beside the segments: indexes, producer snapshots, and the topics' metadata.

One start of the broker checks many damages: each partition of a topic gets another one.
"""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerExited, BrokerProcess
from blackbox.processes.data_files import flip_bit, partition_directory
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import Produced

WAYS = 14
PER_PARTITION = 1500
SEGMENT_BYTES = 64 * 1024
TOPICS = ["a", "b", "c"]


def _damages(path: Path) -> list[Callable[[], object]]:
    """Ways to damage a file, each of them a call."""
    data, chance = path.read_bytes(), random.Random(7)
    flips = [partial(flip_bit, path, chance.randrange(len(data)), chance.randrange(8)) for _ in range(8)]
    garbage = chance.randbytes(len(data))
    contents = [b"", data[: len(data) // 2 + 3], data + garbage[:100], bytes(len(data)), garbage]
    ways: list[Callable[[], object]] = [
        path.unlink,
        *(partial(path.write_bytes, content) for content in contents),
        *flips,
    ]
    assert len(ways) == WAYS
    return ways


def _numbers(q: Any, partition: int, start: int | str) -> list[int]:
    return [int(message.value) for message in q.read("orders", start=start, end="latest", partitions=[partition])]


def _fill_segments(broker: BrokerProcess) -> None:
    """Several segments in every partition, in small frames, so that the indexes have many entries."""
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=WAYS, segment_bytes=SEGMENT_BYTES, durability="interval")
        with q.producer("orders") as producer:
            for start in range(0, PER_PARTITION, 10):
                values = [b"%0100d" % number for number in range(start, start + 10)]
                for number in range(WAYS):
                    producer.send_many(values, partition=number)


def test_damaged_indexes_are_detected_and_rebuilt(broker: BrokerProcess) -> None:
    _fill_segments(broker)
    assert broker.terminate() == 0
    for number in range(WAYS):
        indexes = [
            path for path in partition_directory(broker.data_dir, number).glob("*.index") if path.stat().st_size
        ]
        assert len(indexes) > 1
        for index in indexes:
            _damages(index)[number]()
    broker.start()
    chance = random.Random(1)
    with quiver.connect(broker.address) as q:
        for number in range(WAYS):
            for start in (0, PER_PARTITION - 1, *chance.sample(range(PER_PARTITION), 3)):
                assert _numbers(q, number, start) == list(range(start, PER_PARTITION)), f"way {number}"
            assert _numbers(q, number, "-1h") == list(range(PER_PARTITION)), f"way {number}"
            assert q.publish("orders", b"%d" % PER_PARTITION, partition=number).offset >= PER_PARTITION


def test_damaged_producer_snapshots_lose_neither_data_nor_deduplication(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=WAYS)
    with (
        TcpProxy(broker.address, lambda count: Fault.PASS) as proxy,
        quiver.connect(proxy.address) as q,
        q.producer("orders") as producer,
    ):
        for number in range(3):
            # Large enough that a stop saves a snapshot instead of leaving the frames to the next start.
            value = b"%d" % number + b" " * 40_000
            futures = [producer.send(value, partition=way) for way in range(WAYS)]
            assert [future.result(10).offset for future in futures] == [number] * WAYS
    assert broker.terminate() == 0
    for way in range(WAYS):
        snapshots = list(partition_directory(broker.data_dir, way).glob("*.snapshot"))
        assert snapshots
        for snapshot in snapshots:
            _damages(snapshot)[way]()
    broker.start()
    with NativeWire(broker.address) as wire:
        for request in proxy.requests:
            wire.socket.sendall(request)
            answer = wire.answer()
            assert isinstance(answer, Produced), answer
            assert answer.duplicate
    with quiver.connect(broker.address) as q:
        for way in range(WAYS):
            assert _numbers(q, way, 0) == [0, 1, 2]


@pytest.fixture(scope="module")
def stopped_with_topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker that had topics and was stopped cleanly; to be copied."""
    data_dir = tmp_path_factory.mktemp("metadata") / "data"
    with BrokerProcess(data_dir) as broker:
        with quiver.connect(broker.address) as q:
            for name in TOPICS:
                q.topics.create(name, partitions=2)
                q.publish(name, b"hello", partition=0)
        assert broker.terminate() == 0
    return data_dir


def _refusal(broker: BrokerProcess) -> BrokerExited | None:
    """Starts a broker; the way it refused, or None when it runs."""
    try:
        broker.start(ready=False)
    except BrokerExited as refusal:
        return refusal
    return None


@pytest.mark.parametrize("suffixes", [(".log",), (".snapshot",), (".log", ".snapshot")], ids="+".join)
@pytest.mark.parametrize("way", [0, 1, 2, 4, 6, 7])
def test_damaged_metadata_never_means_that_there_are_no_topics(
    stopped_with_topics: Path, tmp_path: Path, suffixes: tuple[str, ...], way: int
) -> None:
    """Either every topic is there, or the broker says what is damaged; the messages stay in any case."""
    data_dir = tmp_path / "data"
    shutil.copytree(stopped_with_topics, data_dir)
    metadata = [path for path in (data_dir / "logs" / "internal").rglob("*") if path.suffix in suffixes]
    assert metadata
    for path in metadata:
        if path.stat().st_size:
            _damages(path)[way]()
    segments = sorted((data_dir / "logs" / "topics").rglob("*.log"))
    broker = BrokerProcess(data_dir)
    refusal = _refusal(broker)
    try:
        if refusal is None:
            with quiver.connect(broker.address) as q:
                for name in TOPICS:
                    assert [m.value for m in q.read(name, end="latest")] == [b"hello"]
        else:
            assert refusal.status > 0
            assert "damaged data" in refusal.log
            assert "Traceback" not in refusal.log
    finally:
        broker.close()
    assert sorted((data_dir / "logs" / "topics").rglob("*.log")) == segments
