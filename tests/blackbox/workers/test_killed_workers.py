"""`quiver serve --workers`: workers are killed and stopped while messages are published and read."""

import os
import random
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver.cluster.placement import Placement
from quiver.model.errors import QuiverError

WORKERS = 3
PARTITIONS = 6
TOPIC = "orders"
EACH = 40
"""Messages that every publisher has acknowledged between two kills."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", "--native-port", str(free_port()), "--workers", str(WORKERS))
    with process:
        with quiver.connect(process.address) as q:
            q.topics.create(TOPIC, partitions=PARTITIONS)
        yield process


class Publisher(threading.Thread):
    """Publishes numbered messages until it is stopped; `acked` has those that were acknowledged."""

    def __init__(self, name: str, publish: Callable[[bytes], object]) -> None:
        super().__init__(daemon=True)
        self._prefix, self._publish = name.encode(), publish
        self._stopping = threading.Event()
        self.acked: list[bytes] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                value = b"%s-%d" % (self._prefix, len(self.acked))
                self._publish(value)
                self.acked.append(value)
        except BaseException as error:
            self.error = error

    def more(self, count: int) -> None:
        """Waits until so many more are acknowledged."""
        wanted = len(self.acked) + count
        wait_until(lambda: self.error or len(self.acked) >= wanted, 60, f"{count} more messages")
        assert self.error is None, self.error

    def finish(self) -> list[bytes]:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()
        assert self.error is None, self.error
        return self.acked


def by_http(broker: BrokerProcess) -> Callable[[bytes], None]:
    """Repeats what was refused for a passing reason: the id makes that harmless."""

    def publish(value: bytes) -> None:
        body = {"messages": [{"value": value.decode(), "key": value.decode(), "id": value.decode()}]}

        def is_stored() -> bool:
            try:
                status, answer = broker.request("POST", f"/topics/{TOPIC}/messages", body)
            except OSError:
                return False
            assert status in (200, 503), answer
            return status == 200 and answer["results"][0]["offset"] is not None

        wait_until(is_stored, 60, "a publish by HTTP")

    return publish


def stored(broker: BrokerProcess) -> Counter[bytes]:
    with quiver.connect(broker.address) as q:
        found = [message.value or b"" for message in q.read(TOPIC, end="latest")]
    return Counter(value.removeprefix(b'"').removesuffix(b'"') for value in found)


def test_nothing_acked_is_lost_or_stored_twice(broker: BrokerProcess) -> None:
    seen: Counter[bytes] = Counter()
    with quiver.connect(broker.address) as q, quiver.connect(broker.address) as other:
        publishers = [
            Publisher("single", lambda value: q.publish(TOPIC, value, key=value)),
            Publisher("http", by_http(broker)),
        ]
        batches = other.producer(TOPIC, linger="1ms")
        publishers.append(Publisher("batch", lambda value: batches.send(value, key=value).result(60)))
        reader = threading.Thread(target=_read, args=(other, seen), daemon=True)
        reader.start()
        order = [*range(WORKERS), random.randrange(WORKERS)]
        random.shuffle(order)
        for worker in order:
            for publisher in publishers:
                publisher.more(EACH)
            broker.kill_worker(worker)
        for publisher in publishers:
            publisher.more(EACH)
        acked = [value for publisher in publishers for value in publisher.finish()]
        batches.close()
        wait_until(lambda: len(seen) >= len(acked), 60, "the reader has everything")
    assert stored(broker) == Counter(acked), f"workers were killed in the order {order}"
    assert seen == Counter(acked)
    assert [worker["restarts"] for worker in broker.workers] == [order.count(n) for n in range(WORKERS)]
    for number in ("2", "1", "3"):
        with quiver.connect(broker.address) as q:
            _start_with(broker, number, q, acked)
        assert stored(broker) == Counter(acked), "another number of workers has other owners"


def _start_with(broker: BrokerProcess, number: str, q: quiver.Client, acked: list[bytes]) -> None:
    """A client that knows the owners goes on when the broker has more or fewer workers."""

    def publish(name: str) -> None:
        for partition in range(PARTITIONS):
            value = b"%s-%s-%d" % (name.encode(), number.encode(), partition)
            q.publish(TOPIC, value, partition=partition)
            acked.append(value)

    with q.read(TOPIC, start="latest") as reader, q.producer(TOPIC) as out:
        messages = iter(reader)
        publish("before")
        assert [(next(messages).value or b"")[:7] for _ in range(PARTITIONS)] == [b"before-"] * PARTITIONS
        broker.kill()
        broker.args = (*broker.args[:-1], number)
        broker.start()
        publish("after")
        more = [b"more-%s-%d" % (number.encode(), partition) for partition in range(PARTITIONS)]
        for future in [out.send(value, partition=partition) for partition, value in enumerate(more)]:
            future.result(60)
        acked += more
        assert len([next(messages) for _ in range(2 * PARTITIONS)]) == 2 * PARTITIONS


def _read(q: quiver.Client, seen: Counter[bytes]) -> None:
    try:
        for message in q.read(TOPIC):
            seen[(message.value or b"").removeprefix(b'"').removesuffix(b'"')] += 1
    except QuiverError:
        return  # the client is closed


def test_calls_to_a_stopped_worker_fail_and_others_go_on(broker: BrokerProcess) -> None:
    workers = Placement(0, WORKERS).partition_workers(TOPIC, PARTITIONS)
    stopped = 1
    pid = broker.workers[stopped]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for partition, worker in enumerate(workers):
            body = {"messages": [{"value": "x", "partition": partition, "id": f"m{partition}"}]}
            status, answer = broker.request("POST", f"/topics/{TOPIC}/messages", body, timeout=60)
            if worker == stopped:
                assert (status, answer["code"], answer["retryable"]) == (503, "worker_unavailable", True)
            else:
                assert (status, answer["results"][0]["offset"]) == (200, 0)
        _, cluster = broker.request("GET", "/cluster", timeout=60)
        assert [each["state"] == "running" for each in cluster["workers"]] == [n != stopped for n in range(WORKERS)]
        status, ready = broker.request("GET", "/readyz", timeout=60)
        assert (status, f"worker {stopped}" in ready["checks"]["storage"]["message"]) == (503, True)
    finally:
        os.kill(pid, signal.SIGCONT)
    for partition in range(PARTITIONS):
        body = {"messages": [{"value": "x", "partition": partition, "id": f"m{partition}"}]}
        wait_until(lambda body=body: _is_stored(broker, body), 30, "the worker runs again")
    assert sum(stored(broker).values()) == PARTITIONS, "what was under way when it stopped is stored once"


def _is_stored(broker: BrokerProcess, body: object) -> bool:
    status, _ = broker.request("POST", f"/topics/{TOPIC}/messages", body, timeout=60)
    return status == 200


def test_numbers_do_not_fall_when_a_worker_is_replaced(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        for n in range(60):
            q.publish(TOPIC, b"x", key=b"%d" % n)
    assert published(broker) == 60
    for worker in range(WORKERS):
        broker.kill_worker(worker)
        assert [published(broker) for _ in range(4)] == [60] * 4
    _, overview = broker.request("GET", "/overview")
    assert overview["topics"] == 1
    _, topic = broker.request("GET", f"/topics/{TOPIC}")
    assert topic["total_messages"] == 60
    _, stats = broker.request("GET", "/stats")
    assert stats["total_messages"] == 60
    _, cluster = broker.request("GET", "/cluster?units=true")
    assert [each["restarts"] for each in cluster["workers"]] == [1] * WORKERS
    assert sum(each["partitions"] for each in cluster["workers"]) == PARTITIONS
    assert cluster["topics"] == {TOPIC: list(Placement(0, WORKERS).partition_workers(TOPIC, PARTITIONS))}


def published(broker: BrokerProcess) -> float:
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if line.startswith("quiver_published_messages_total{")
    )
