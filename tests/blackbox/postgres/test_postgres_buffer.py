"""The local buffer for publishes while the database is away: order, no loss, no doubles, and what it refuses."""

import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerExited, BrokerProcess, wait_until
from postgres_cluster import PostgresCluster, programs, running_cluster

StartBroker = Callable[..., BrokerProcess]
SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL for the tests of this module to stop."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    with running_cluster() as running:
        yield running


def _publish(broker: BrokerProcess, value: str, **more: object) -> tuple[int, dict[str, Any]]:
    return broker.request("POST", "/topics/orders/messages", {"messages": [{"value": value, **more}]})


def _await_buffering(broker: BrokerProcess, value: str) -> None:
    """The first publish that the database did not get."""
    status, body = _publish(broker, value)
    assert status == 200, body
    assert body["results"][0].get("buffered") is True


def _await_ready(broker: BrokerProcess) -> None:
    wait_until(
        lambda: broker.request("GET", "/readyz")[1]["checks"]["storage"]["message"] == "all partitions take writes",
        SECONDS,
        "the broker is ready again",
    )


def _values(broker: BrokerProcess) -> list[str]:
    with quiver.connect(broker.address) as q:
        return [message.value.decode() for message in q.read("orders", end="latest")]


@pytest.mark.parametrize("durability", ["fsync", "interval"])
def test_publishes_wait_in_order_and_are_stored_when_the_database_is_back(
    start_broker: StartBroker, cluster: PostgresCluster, tmp_path: Path, durability: str
) -> None:
    folder = tmp_path / "buffer"
    broker = start_broker("--storage", f"{cluster.address}?schema=waits_{durability}", "--buffer-dir", str(folder))
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1, durability=durability, dedup_window="1h")
        with q.producer("orders") as producer:
            assert not producer.send(b"direct").result().buffered
            mover = broker.request("POST", "/producers/init", {"transactional_id": "mover"})[1]
            assert broker.request("POST", "/transactions/begin", mover)[0] == 200
            in_transaction = {**mover, "topic": "orders", "value": "in a transaction", "sequence": 0}
            cluster.stop()
            try:
                _await_buffering(broker, "http 0")
                results = [producer.send(b"sdk %d" % number) for number in range(100)]
                assert all(sent.result().buffered for sent in results)
                assert [sent.result().offset for sent in results] == list(range(2, 102))
                assert _publish(broker, "http 1", id="one")[1]["results"][0]["buffered"] is True
                assert _publish(broker, "http 2", id="one")[1]["results"][0]["duplicate"] is True
                item = {"queue": "orders", "partition": "p", "payload": 1}
                status, pushed = broker.request("POST", "/api/v1/push", {"items": [item]})
                assert (status, pushed[0]["status"]) == (201, "buffered")
                status, refused = _publish(broker, "later", delay="1h")
                assert (status, refused["code"], refused["retryable"]) == (503, "storage_unavailable", True)
                status, refused = broker.request("POST", "/transactions/publish", in_transaction)
                assert (status, refused["code"], refused["retryable"]) == (503, "storage_unavailable", True)
                status, ready = broker.request("GET", "/readyz")
                assert status == 200, str(ready)
                assert (
                    "publishes go to the local buffer, which has 103 messages"
                    in ready["checks"]["storage"]["message"]
                )
                with urllib.request.urlopen(f"{broker.http}/metrics", timeout=10) as response:
                    scraped = response.read()
                assert b"quiver_buffer_messages 103" in scraped
                assert b"quiver_buffered_messages_total 103" in scraped
                assert b"quiver_buffer_bytes 0" not in scraped
                assert _values(broker) == ["direct"], "nobody reads what is buffered"
            finally:
                cluster.start()
            _await_ready(broker)
            assert not producer.send(b"after").result().buffered
    values = _values(broker)
    assert values[:-2] == ["direct", "http 0", *(f"sdk {number}" for number in range(100)), "http 1"]
    assert values[-1] == "after"
    assert not list(folder.iterdir())


def test_a_killed_broker_stores_its_buffer_at_the_next_start_and_once(
    start_broker: StartBroker, cluster: PostgresCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "buffer"
    storage = ("--storage", f"{cluster.address}?schema=killed")
    broker = start_broker(*storage, "--buffer-dir", str(folder))
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"direct")
    cluster.stop()
    try:
        _await_buffering(broker, "0")
        for number in range(1, 20):
            assert _publish(broker, str(number))[0] == 200
        broker.kill()
    finally:
        cluster.start()
    file = folder / "publishes.buffer"
    shutil.copy(file, tmp_path / "copy")
    with file.open("ab") as end:
        end.write(b"\x40\x00\x00\x00 cut off")
    broker.start()
    expected = ["direct", *map(str, range(20))]
    assert _values(broker) == expected
    broker.kill()
    shutil.copy(tmp_path / "copy", file)  # as if it had been killed before the file was removed
    broker.start()
    assert _values(broker) == expected
    assert not file.exists()

    # another broker, without the buffer, has written where the buffered messages were to be
    cluster.stop()
    try:
        assert _publish(broker, "mine")[1]["results"][0]["buffered"] is True
        broker.kill()
    finally:
        cluster.start()
    other = start_broker(*storage, data_dir=tmp_path / "other")
    assert _publish(other, "other's")[0] == 200
    other.terminate()
    broker.start()
    assert _values(broker) == [*expected, "other's", "mine"]
    assert _publish(broker, "last")[1]["results"][0]["offset"] == len(expected) + 2

    # a clean stop while the database is away
    cluster.stop()
    try:
        assert _publish(broker, "stopped")[1]["results"][0]["buffered"] is True
        broker.terminate()
    finally:
        cluster.start()
    with pytest.raises(BrokerExited) as refused:
        start_broker(
            "--storage", f"{cluster.address}?schema=another", "--buffer-dir", str(folder), data_dir=tmp_path / "o"
        )
    assert "has messages for another database or schema" in refused.value.log
    broker.start()
    assert _values(broker)[-2:] == ["last", "stopped"]


def test_a_full_buffer_refuses_and_what_it_has_is_stored(
    start_broker: StartBroker, cluster: PostgresCluster, tmp_path: Path
) -> None:
    with pytest.raises(BrokerExited) as refused:
        start_broker("--buffer-dir", str(tmp_path / "buffer"))
    assert "'buffer_dir': needs --storage" in refused.value.log
    arguments = ("--buffer-dir", str(tmp_path / "buffer"), "--buffer-bytes", "1MiB")
    broker = start_broker("--storage", f"{cluster.address}?schema=full", *arguments)
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
    cluster.stop()
    try:
        statuses = [_publish(broker, "x" * 300_000)[0] for _ in range(3)]
        assert statuses == [200, 200, 200]
        status, body = _publish(broker, "x" * 300_000)
        assert (status, body["code"], body["retryable"]) == (503, "storage_unavailable", True)
        assert "the local buffer is full" in body["error"]
        assert _publish(broker, "small")[0] == 200
    finally:
        cluster.start()
    _await_ready(broker)
    assert [len(value) for value in _values(broker)] == [300_000] * 3 + [5]
