"""Transactions over HTTP, through the real program."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess, wait_until

_NAMES = (f"topic-{number}" for number in itertools.count())


class Http:
    """Words for the rows of transactions; an answer that is not 200 is an error of the test."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        got, answer = self.broker.request("POST", path, body)
        assert got == status, (path, got, answer)
        return answer

    def get(self, path: str) -> Any:
        got, answer = self.broker.request("GET", path)
        assert got == 200, (path, got, answer)
        return answer

    def topic(self, partitions: int = 1) -> str:
        name = next(_NAMES)
        status, answer = self.broker.request("POST", "/topics", {"name": name, "partitions": partitions})
        assert status == 201, answer
        return name

    def init(self, **body: Any) -> dict[str, int]:
        found: dict[str, int] = self.post("/producers/init", **body)
        assert found.keys() == {"producer_id", "epoch"}
        return found

    def values(self, topic: str, partition: int = 0, **query: str) -> list[str]:
        words = "&".join(f"{name}={value}" for name, value in {"limit": 10_000, **query}.items())
        page = self.get(f"/topics/{topic}/partitions/{partition}/messages?{words}")
        return [message["value"] for message in page["messages"]]


@pytest.fixture
def http(shared_broker: BrokerProcess) -> Http:
    return Http(shared_broker)


def test_from_begin_to_commit(http: Http) -> None:
    topic = http.topic(2)
    key = http.init(transactional_id="mine", transaction_timeout_ms=30_000)
    begun = http.post("/transactions/begin", **key, transactional_id="mine")
    assert begun["transaction_id"] == f"{key['producer_id']}:{key['epoch']}"
    assert begun["epoch"] == key["epoch"]
    first = http.post("/transactions/publish", **key, topic=topic, partition=0, value="a", sequence=3)
    assert first == {"partition": 0, "offset": 0, "duplicate": False}
    again = http.post("/transactions/publish", **key, topic=topic, partition=0, value="a", sequence=3)
    assert again == {"partition": 0, "offset": 0, "duplicate": True}
    http.post("/transactions/add-partition", **key, topic=topic, partition=1)
    http.post("/transactions/publish", **key, topic=topic, partition=1, value={"b": 1}, key="k")
    assert http.values(topic) == []
    assert http.values(topic, isolation="read_uncommitted") == ["a"]
    [info] = [each for each in http.get("/transactions")["transactions"] if each["transactional_id"] == "mine"]
    assert info["state"] == "open"
    assert info["timeout_ms"] == 30_000
    assert info["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    ended = http.post("/transactions/commit", **key)
    assert ended == {"status": "committed", "producer_id": key["producer_id"], "epoch": key["epoch"] + 1}
    assert (http.values(topic), http.values(topic, 1)) == (["a"], ['{"b": 1}'])
    assert http.post("/transactions/commit", **key) == {**ended, "repeated": True}
    stats = http.get("/transactions/stats")
    assert stats["committed_total"] >= 1
    assert stats["avg_duration"] >= 0


def test_abort_and_the_next_transaction(http: Http) -> None:
    topic = http.topic()
    key = http.init()
    http.post("/transactions/publish", **key, topic=topic, value="never")
    ended = http.post("/transactions/abort", **key)
    assert ended["status"] == "aborted"
    assert ended["epoch"] == key["epoch"] + 1
    following = {**key, "epoch": ended["epoch"]}
    late = http.post("/transactions/publish", 409, **key, topic=topic, value="late")
    assert late["code"] == "producer_fenced"
    http.post("/transactions/publish", **following, topic=topic, value="kept", sequence=100)
    assert http.post("/transactions/commit", 409, **key)["code"] == "producer_fenced"
    http.post("/transactions/commit", **following)
    assert http.values(topic) == ["kept"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_epoch_that_ended_by_itself_is_not_called_a_take_over(http: Http, end: str) -> None:
    topic = http.topic()
    key = http.init(transactional_id=f"ends-{end}")
    http.post("/transactions/publish", **key, topic=topic, value="a")
    following = http.post(f"/transactions/{end}", **key)["epoch"]
    late = http.post("/transactions/publish", 409, **key, topic=topic, value="late")
    assert late["code"] == "producer_fenced"
    assert "another instance" not in late["error"]
    assert f"continue with producer {key['producer_id']} epoch {following}" in late["error"]
    ahead = http.post("/transactions/begin", 409, producer_id=key["producer_id"], epoch=following + 5)
    assert "another instance" not in ahead["error"]
    http.init(transactional_id=f"ends-{end}")
    taken = http.post("/transactions/begin", 409, producer_id=key["producer_id"], epoch=following)
    assert "another instance took over" in taken["error"]


def test_an_old_instance_is_fenced(http: Http) -> None:
    topic = http.topic()
    old = http.init(transactional_id="worker 1")
    http.post("/transactions/publish", **old, topic=topic, value="old")
    new = http.init(transactional_id="worker 1")
    assert new == {"producer_id": old["producer_id"], "epoch": old["epoch"] + 1}
    for path in ("/transactions/commit", "/transactions/abort", "/transactions/begin"):
        assert http.post(path, 409, **old)["code"] == "producer_fenced"
    path = f"/producers/{old['producer_id']}/heartbeat"
    assert http.post(path, 409, epoch=old["epoch"])["code"] == "producer_fenced"
    assert http.post(path, epoch=new["epoch"], transactional_id="worker 1") == new
    assert http.values(topic, isolation="read_uncommitted") == ["old"]
    assert http.values(topic) == []


def test_offsets_and_receipts_count_with_the_commit(http: Http) -> None:
    source, target = http.topic(), http.topic()
    http.post(f"/topics/{source}/messages", messages=[{"value": "1"}, {"value": "2"}])
    received = http.post(f"/topics/{source}/receive", group=f"queue-{source}", max_messages=1)
    receipt = received["messages"][0]["receipt_handle"]
    key = http.init()
    http.post("/transactions/publish", **key, topic=target, value="out")
    http.post("/transactions/add-offsets", **key, group=f"one-{source}", offsets={source: {"0": 2}})
    http.post("/transactions/add-offsets", **key, group=f"two-{source}", offsets={source: {"0": 1}})
    http.post("/transactions/commit", **key, receipts=[receipt])
    for group, offset in ((f"one-{source}", 2), (f"two-{source}", 1)):
        assert http.get(f"/groups/{group}/offsets")["topics"] == {source: {"0": offset}}
    assert http.values(target) == ["out"]
    assert http.post("/messages/ack", 410, receipt_handle=receipt)["code"] == "lease_lost"
    other = {**key, "epoch": key["epoch"] + 1}
    http.post("/transactions/publish", **other, topic=target, value="twice")
    assert http.post("/transactions/commit", 410, **other, receipts=[receipt])["code"] == "lease_lost"
    http.post("/transactions/abort", **other)
    assert http.values(target) == ["out"]


def test_several_producers_and_a_key(http: Http) -> None:
    topic = http.topic(3)
    keys = [http.init() for _ in range(3)]
    for number, key in enumerate(keys):
        http.post("/transactions/publish", **key, topic=topic, partition=number, value=str(number))
    first = http.post("/transactions/commit", producers=keys, key=f"batch of {topic}")
    assert first["producers"] == [{**key, "epoch": key["epoch"] + 1} for key in keys]
    again = http.post("/transactions/commit", producers=[http.init()], key=f"batch of {topic}")
    assert again == {**first, "repeated": True}
    assert [http.values(topic, number) for number in range(3)] == [["0"], ["1"], ["2"]]


def test_a_transaction_times_out(http: Http) -> None:
    topic = http.topic()
    key = http.init(transaction_timeout_ms=100)
    http.post("/transactions/publish", **key, topic=topic, value="slow")
    http.post(f"/topics/{topic}/messages", messages=[{"value": "behind"}])
    wait_until(lambda: http.values(topic) == ["behind"], 10, "the transaction is aborted")
    assert http.post("/transactions/commit", 409, **key)["code"] == "producer_fenced"


def test_heartbeats_hold_no_transaction_open_beyond_the_limit_of_the_broker(start_broker) -> None:
    http = Http(start_broker("--transaction-max", "1s"))
    topic = http.topic()
    assert "transaction_max" in http.post("/producers/init", 400, transaction_timeout_ms=1_001)["error"]
    key = http.init(transaction_timeout_ms=1_000)
    http.post("/transactions/publish", **key, topic=topic, value="for ever")
    http.post(f"/topics/{topic}/messages", messages=[{"value": "after it"}])

    def is_readable_though_the_producer_lives() -> bool:
        http.broker.request("POST", f"/producers/{key['producer_id']}/heartbeat", {"epoch": key["epoch"]})
        return http.values(topic) == ["after it"]

    wait_until(is_readable_though_the_producer_lives, 20, "the transaction is aborted")
    assert http.post("/transactions/commit", 409, **key)["code"] == "producer_fenced"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/producers/init", {"transaction_timeout_ms": 900_001}),
        ("/producers/init", {"transactional_id": ""}),
        ("/producers/x/heartbeat", {"epoch": 0}),
        ("/transactions/begin", {"producer_id": 1}),
        ("/transactions/commit", {}),
        ("/transactions/commit", {"producer_id": 1}),
        ("/transactions/abort", {"producers": []}),
        ("/transactions/publish", {"producer_id": 1, "epoch": -1, "topic": "t", "value": ""}),
    ],
)
def test_bad_requests(http: Http, path: str, body: dict[str, Any]) -> None:
    status, answer = http.broker.request("POST", path, body)
    assert (status, answer["code"]) == (400, "invalid_request")


def test_unknown_producers_and_topics(http: Http) -> None:
    assert http.post("/transactions/commit", 409, producer_id=987_654, epoch=0)["code"] == "unknown_producer"
    answer = http.post("/transactions/publish", 404, **http.init(), topic="nowhere", value="x")
    assert answer["code"] == "topic_not_found"


def test_kill_9_leaves_every_transaction_whole_or_not_at_all(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    http, partitions = Http(broker), 4
    topic = http.topic(partitions)
    answered: set[str] = set()
    for turn in range(3):
        stop = threading.Event()
        worker = threading.Thread(target=_transfer, args=(http, topic, partitions, f"{turn}", stop, answered))
        worker.start()
        some = len(answered) + 1 + 5 * turn
        wait_until(lambda some=some: len(answered) >= some, 20, "work is under way")
        broker.kill()
        stop.set()
        worker.join()
        broker.start()
        found = [http.values(topic, number) for number in range(partitions)]
        assert all(len(values) == len(set(values)) for values in found), "nothing is there twice"
        assert all(set(values) == set(found[0]) for values in found), "it is in all partitions, or in none"
        assert answered <= set(found[0]), "what was answered is there"


def _transfer(http: Http, topic: str, partitions: int, name: str, stop: threading.Event, answered: set[str]) -> None:
    """Transactions over all partitions, one after the other, every third one aborted, until the broker is gone."""
    try:
        key = http.init(transactional_id="worker")
        for number in itertools.count():
            if stop.is_set():
                return
            for partition in range(partitions):
                http.post("/transactions/publish", **key, topic=topic, partition=partition, value=f"{name}-{number}")
            is_kept = number % 3 < 2
            ended = http.post("/transactions/commit" if is_kept else "/transactions/abort", **key)
            if is_kept:
                answered.add(f"{name}-{number}")
            key = {"producer_id": ended["producer_id"], "epoch": ended["epoch"]}
    except (OSError, AssertionError, ValueError):
        return
