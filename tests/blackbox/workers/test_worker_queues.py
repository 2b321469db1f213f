"""Queues of a broker with several workers: single workers are killed, and every message is settled once."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver.model.errors import QuiverError

WORKERS, PARTITIONS = 3, 6
TOPIC = "jobs"
SETTINGS = {"visibility": "2s", "backoff": "50ms", "backoff_max": "200ms", "max_attempts": 50}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    ports = ["--native-port", str(free_port()), "--http-port", str(free_port())]
    with BrokerProcess(tmp_path / "data", "--workers", str(WORKERS), *ports) as process:
        body = {"name": TOPIC, "partitions": PARTITIONS, **SETTINGS}
        assert process.request("POST", "/topics", body)[0] == 201
        yield process


class Consumer(threading.Thread):
    """Takes part until it is stopped."""

    def __init__(self, work: "Callable[[Consumer], None]") -> None:
        super().__init__(daemon=True)
        self._work = work
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._work(self)
        except BaseException as error:
            self.error = error


class Record:
    """`settled` has what was acked, `sent` what was to be acked, whatever the response was, and `again` what was
    delivered after its ack had succeeded."""

    def __init__(self) -> None:
        self.settled: set[str] = set()
        self.sent: set[str] = set()
        self.again: list[str] = []
        self._mutex = threading.Lock()

    def delivered(self, value: str) -> None:
        with self._mutex:
            self.sent.add(value)
            if value in self.settled:
                self.again.append(value)

    def acked(self, value: str) -> None:
        with self._mutex:
            self.settled.add(value)


def by_sdk(broker: BrokerProcess, record: Record) -> Callable[[Consumer], None]:
    def work(consumer: Consumer) -> None:
        try:
            with quiver.connect(broker.address) as q, q.work(TOPIC, group="g", ordering="none", timeout=1) as jobs:
                for job in jobs:
                    value = job.value.decode()
                    record.delivered(value)
                    job.ack()
                    record.acked(value)
                    if consumer.stopping.is_set():
                        return
        except QuiverError as error:
            if not error.retryable and error.code != "lease_lost":
                raise

    return work


def by_http(broker: BrokerProcess, record: Record) -> Callable[[Consumer], None]:
    def request(path: str, body: Any) -> Any:
        try:
            status, answer = broker.request("POST", path, body)
        except OSError:
            return None
        assert status in (200, 503), answer
        return answer if status == 200 else None

    def work(consumer: Consumer) -> None:
        wanted = {"group": "g", "consumer": consumer.name, "max_messages": 5, "wait": "300ms"}
        received = request(f"/topics/{TOPIC}/receive", wanted)
        if not received or not received["messages"]:
            return
        messages = {message["receipt_handle"]: message["value"] for message in received["messages"]}
        for value in messages.values():
            record.delivered(value)
        answer = request("/messages/ack", {"receipts": list(messages)})
        for value, result in zip(messages.values(), answer["results"] if answer else (), strict=False):
            if result["success"]:
                record.acked(value)

    return work


def publish(broker: BrokerProcess, name: str, count: int, **fields: Any) -> set[str]:
    """Over HTTP, each message until it is stored; an id makes a repeat harmless."""

    def is_stored(message: dict[str, Any]) -> bool:
        try:
            status, answer = broker.request("POST", f"/topics/{TOPIC}/messages", {"messages": [message]})
        except OSError:
            return False
        assert status in (200, 201, 503), answer
        return status != 503 and "error" not in answer["results"][0]

    values = [f"{name}-{number}" for number in range(count)]
    for value in values:
        message = {"value": value, "key": value, "id": value, **fields}
        wait_until(lambda message=message: is_stored(message), 60, f"{value} is stored")
    return set(values)


def depth(broker: BrokerProcess) -> dict[str, Any]:
    status, answer = broker.request("GET", f"/topics/{TOPIC}/queues/g")
    assert status in (200, 503), answer
    counted = ("ready", "leased", "retrying", "delayed")
    return {what: answer[what] for what in counted} if status == 200 else {"ready": -1}


def test_every_message_is_settled_once_although_workers_are_killed(broker: BrokerProcess) -> None:
    record = Record()
    consumers = [Consumer(by_sdk(broker, record)) for _ in range(2)]
    consumers += [Consumer(by_http(broker, record)) for _ in range(2)]
    published = publish(broker, "first", 20)
    for worker in range(WORKERS):
        killing = threading.Thread(target=broker.kill_worker, args=(worker,))
        killing.start()
        published |= publish(broker, f"during-{worker}", 30)
        published |= publish(broker, f"later-{worker}", 5, delay="300ms")
        killing.join()
    wait_until(lambda: published <= record.sent or any(one.error for one in consumers), 60, "all were delivered")
    wait_until(lambda: not any(depth(broker).values()), 60, "nothing is left")
    for consumer in consumers:
        consumer.stopping.set()
    for consumer in consumers:
        consumer.join(60)
        assert consumer.error is None, consumer.error
    assert record.sent == published
    assert len(record.settled) > len(published) - 30, "only acks that a kill interrupted have no response"
    assert record.again == [], "delivered although it was acked"


def test_dead_letters_go_back_once_although_workers_are_killed(broker: BrokerProcess) -> None:
    values = publish(broker, "bad", 30)
    wanted = {"group": "g", "max_messages": 30, "wait": "2s"}
    rejected = 0
    while rejected < 30:
        status, received = broker.request("POST", f"/topics/{TOPIC}/receive", wanted)
        receipts = [message["receipt_handle"] for message in received["messages"]]
        assert status == 200
        status, answer = broker.request("POST", "/messages/reject", {"receipts": receipts, "reason": "bad"})
        rejected += sum(result["success"] for result in answer["results"])

    def total() -> int:
        status, page = broker.request("GET", f"/topics/{TOPIC}/dlq?limit=1")
        return int(page["total"]) if status == 200 else -1

    wait_until(lambda: total() == 30, 60, "thirty dead letters")
    killing = threading.Thread(target=lambda: [broker.kill_worker(worker) for worker in (1, 2, 0)])
    killing.start()

    def redrive() -> bool:
        try:
            broker.request("POST", f"/topics/{TOPIC}/dlq/redrive", {"limit": 4})
            return total() == 0
        except OSError:
            return False

    wait_until(redrive, 60, "all were redriven")
    killing.join()
    got: list[str] = []
    while len(got) < 30:
        _, received = broker.request("POST", f"/topics/{TOPIC}/receive", wanted)
        got += [message["value"] for message in received["messages"]]
        receipts = [message["receipt_handle"] for message in received["messages"]]
        _, answer = broker.request("POST", "/messages/ack", {"receipts": receipts})
        assert all(result["success"] for result in answer["results"])
    assert sorted(got) == sorted(values)
    assert depth(broker)["ready"] == 0
