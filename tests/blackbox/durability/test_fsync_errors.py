"""fdatasync fails or takes its time, injected with strace."""

import threading
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.strace_faults import inject
from quiver.model.errors import PartitionOffline, QuiverError

SLOW = "delay_exit=300000"
PATIENCE_SECONDS = 1
"""How long a client repeats a refused publish."""


def _fail_partition(broker: BrokerProcess, q: Any, partition: int) -> None:
    with inject(broker.pid, "error=EIO") as injection:
        with pytest.raises(PartitionOffline):
            q.publish("orders", b"lost", partition=partition)
        assert injection.calls >= 1


def test_a_failed_fsync_takes_the_partition_offline_for_writes_only(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"before", partition=0)
        _fail_partition(broker, q, 0)
        with pytest.raises(PartitionOffline):
            q.publish("orders", b"never retried", partition=0)
        assert [m.value for m in q.read("orders", end="latest")] == [b"before"]
        assert q.publish("orders", b"elsewhere", partition=1).partition == 1


def test_readiness_says_why_and_a_restart_brings_the_partition_back(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"before", partition=0)
        _fail_partition(broker, q, 0)
    status, ready = broker.request("GET", "/readyz?verbose=true")
    assert (status, ready["status"]) == (503, "fail")
    assert "orders" in str(ready["checks"]["storage"]), ready
    assert broker.request("GET", "/livez")[0] == 200
    broker.terminate()
    broker.start()
    with quiver.connect(broker.address, timeout=PATIENCE_SECONDS) as q:
        q.publish("orders", b"after", partition=0)
        values = [m.value for m in q.read("orders", end="latest", partitions=[0])]
    assert values in ([b"before", b"after"], [b"before", b"lost", b"after"])


def test_an_idempotent_producer_is_told_and_nothing_is_doubled(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        with q.producer("orders", delivery_timeout="3s") as producer:
            producer.send(b"before").result(10)
            with inject(broker.pid, "error=EIO"):
                future = producer.send(b"lost")
                with pytest.raises(QuiverError):
                    future.result(30)
    broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        values = [m.value for m in q.read("orders", end="latest")]
    assert values in ([b"before"], [b"before", b"lost"])


def test_a_slow_fsync_holds_up_acks_and_readers_of_the_message_and_nothing_else(broker: BrokerProcess) -> None:
    order: list[str] = []

    def publish() -> None:
        with quiver.connect(broker.address) as mine:
            mine.publish("slow", b"x")
            order.append("acked")

    with quiver.connect(broker.address) as q:
        q.topics.create("slow", partitions=1)
        q.topics.create("quick", partitions=1, durability="interval")
        q.publish("quick", b"warm")
        with inject(broker.pid, "delay_exit=2000000", "fdatasync"):
            thread = threading.Thread(target=publish)
            thread.start()
            size = wait_until(lambda: _size_on_disk(broker), 10, "the message is written")
            assert size > 0
            assert list(q.read("slow", end="latest")) == []
            assert broker.request("GET", "/health")[0] == 200
            q.publish("quick", b"y")
            order.append("others served")
            thread.join()
        assert [m.value for m in q.read("slow", end="latest")] == [b"x"]
    assert order == ["others served", "acked"]


def _size_on_disk(broker: BrokerProcess) -> int:
    (slow, _) = sorted((broker.data_dir / "logs" / "topics").iterdir(), key=lambda path: int(path.name))
    return sum(path.stat().st_size for path in slow.rglob("*.log"))


def test_publishes_that_wait_share_a_sync(broker: BrokerProcess) -> None:
    publishers = 40
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        with inject(broker.pid, SLOW, "fdatasync") as injection:
            threads = [threading.Thread(target=q.publish, args=("orders", b"x")) for _ in range(publishers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert 1 <= injection.calls <= publishers // 2
        assert len(list(q.read("orders", end="latest"))) == publishers
