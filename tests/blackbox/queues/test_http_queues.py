"""Queues over HTTP: receiving, settling in both shapes, receipts that are not good, depth and counters."""

import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import msgspec
import pytest

from blackbox.callers.http_queue import HttpQueue, values
from blackbox.processes.broker_process import BrokerProcess, wait_until

SETTLING = ["ack", "nack", "reject", "visibility"]


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> HttpQueue:
    return HttpQueue(shared_broker)


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_message_is_received_with_its_lease_and_acked(queue: HttpQueue) -> None:
    queue.publish_messages(
        [{"key": "k", "value": {"id": 1}, "headers": {"h": "x"}, "timestamp": 1_700_000_000_000, "priority": "high"}]
    )
    before = datetime.now(UTC)
    [message] = queue.receive(visibility="1m")
    assert message.pop("appended_at")
    assert datetime.fromisoformat(message.pop("first_delivered")).timestamp() >= before.timestamp() - 1
    lasts = datetime.fromisoformat(message.pop("deadline")) - before
    assert 50 < lasts.total_seconds() < 120
    receipt = message.pop("receipt_handle")
    assert receipt.startswith(f"{queue.topic}:0:0:1:")
    assert message == {
        "topic": queue.topic,
        "partition": 0,
        "offset": 0,
        "timestamp": "2023-11-14T22:13:20.000Z",
        "priority": "high",
        "key": "k",
        "value": '{"id": 1}',
        "headers": {"h": "x"},
        "attempt": 1,
    }
    assert queue.receive() == []
    assert queue.settle("ack", receipt) == {
        "success": True,
        "action": "acked",
        "topic": queue.topic,
        "partition": 0,
        "offset": 0,
        "delivery_count": 1,
        "next_visible_at": None,
        "dlq_topic": None,
        "new_deadline": None,
        "committed_offset": 1,
        "offset_advanced": True,
    }
    assert queue.settle("ack", receipt, status=410)["code"] == "lease_lost"


def test_a_nack_shows_its_reason_at_the_next_delivery(queue: HttpQueue) -> None:
    queue.publish("a")
    first = queue.receive_one()
    given_back = queue.settle("nack", first, delay="100ms", reason="the server is down")
    assert (given_back["action"], given_back["delivery_count"]) == ("requeued", 1)
    again = queue.receive_one()
    assert (again["value"], again["attempt"], again["last_error"]) == ("a", 2, "the server is down")
    assert again["first_delivered"] == first["first_delivered"]
    assert again["deadline"] >= given_back["next_visible_at"]
    queue.settle("nack", again, delay=0, counted=False)
    assert queue.receive_one()["attempt"] == 2


def test_a_reject_goes_to_the_dead_letters(queue: HttpQueue) -> None:
    queue.publish("bad", key="k")
    rejected = queue.settle("reject", queue.receive_one(), reason="not an address")
    assert (rejected["action"], rejected["dlq_topic"]) == ("rejected", f"{queue.topic}.dlq")
    [dead_letter] = queue.dead_letters(1)
    assert (dead_letter["value"], dead_letter["key"]) == ("bad", "k")
    assert (dead_letter["reason"], dead_letter["last_error"], dead_letter["attempts"]) == (
        "rejected",
        "not an address",
        1,
    )
    assert queue.receive() == []


def test_the_last_attempt_ends_in_the_dead_letters(queue: HttpQueue) -> None:
    queue.publish("a")
    for attempt in range(1, 4):
        message = queue.receive_one()
        assert message["attempt"] == attempt
        assert queue.settle("nack", message, delay=0, reason=f"no {attempt}")["action"] == "requeued"
    last = queue.settle("nack", queue.receive_one(), reason="no 4")
    assert (last["action"], last["dlq_topic"], last["next_visible_at"]) == ("dlq", f"{queue.topic}.dlq", None)
    [dead_letter] = queue.dead_letters(1)
    assert (dead_letter["reason"], dead_letter["last_error"], dead_letter["attempts"]) == ("max_attempts", "no 4", 4)


@pytest.mark.parametrize("field", ["timeout", "extension_seconds"])
def test_a_lease_is_extended(queue: HttpQueue, field: str) -> None:
    queue.publish("a")
    message = queue.receive_one(visibility="1m")
    extended = queue.settle("visibility", message, **{field: 3600})
    assert extended["action"] == "extended"
    left = datetime.fromisoformat(extended["new_deadline"]) - datetime.now(UTC)
    assert 3500 < left.total_seconds() <= 3600
    queue.settle("visibility", message, **{field: 0})
    again = queue.receive_one()
    assert (again["value"], again["attempt"]) == ("a", 2)
    assert queue.settle("visibility", message, status=410)["code"] == "lease_lost"


def test_many_receipts_have_a_result_each_and_in_order(queue: HttpQueue) -> None:
    queue.publish(*"abcde")
    messages = queue.receive(max_messages=5)
    assert values(messages) == list("abcde")
    receipts = [message["receipt_handle"] for message in messages]
    results = queue.settle_many("ack", [receipts[4], "nonsense", receipts[0], receipts[0], receipts[2]])
    assert [result["success"] for result in results] == [True, False, True, False, True]
    assert [result.get("code") for result in results] == [None, "invalid_receipt", None, "lease_lost", None]
    assert [result.get("status") for result in results] == [None, 400, None, 410, None]
    assert [result.get("offset") for result in results] == [4, None, 0, None, 2]
    # A nack is not swallowed by an ack of the same messages, and the other way round.
    results = queue.settle_many("nack", receipts[:3], delay=0)
    assert [result["success"] for result in results] == [False, True, False]
    again = queue.receive_all(1)
    assert values(again) == ["b"]
    assert values(queue.receive()) == []
    queue.settle("ack", again[0])
    queue.settle("ack", messages[3])
    queue.wait_for_depth(ready=0, leased=0, retrying=0)


def test_max_messages_and_priority(queue: HttpQueue) -> None:
    queue.publish("slow", "slower", priority="low")
    queue.publish("fast", priority="critical")
    assert values(queue.receive(max_messages=1)) == ["fast"]
    assert queue.receive(priority="critical") == []
    assert values(queue.receive(priority="low", max_messages=1)) == ["slow"]
    assert values(queue.receive()) == ["slower"]


def test_a_waiting_receive_wakes_at_once(queue: HttpQueue) -> None:
    found: list[str] = []
    waiting = in_background(lambda: found.extend(values(queue.receive("waking", wait="60s"))))
    wait_until(lambda: queue.broker.request("GET", "/groups/waking")[0] == 200, 20, "the receive is there")
    queue.publish("a")
    waiting.join(20)
    assert found == ["a"]


def test_what_a_vanished_client_waited_for_is_not_counted(queue: HttpQueue) -> None:
    body = b'{"group": "vanishing", "wait": "60s"}'
    head = f"POST /topics/{queue.topic}/receive HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", queue.broker.http_port)) as gone:
        gone.sendall(head.encode() + body)
        wait_until(lambda: queue.broker.request("GET", "/groups/vanishing")[0] == 200, 20, "the receive is there")
        gone.shutdown(socket.SHUT_WR)
        assert gone.recv(1) == b""
    queue.publish("a")
    message = queue.receive_one("vanishing")
    assert (message["value"], message["attempt"]) == ("a", 1)


@pytest.mark.parametrize("verb", SETTLING)
@pytest.mark.parametrize(
    "receipt",
    [
        "",
        "nonsense",
        "a:b:c:d:e",
        "{topic}:0:0:1",
        "{topic}:0:0:1:zz-1",
        "{topic}:-1:0:1:1-1",
        "{topic}:0:99999999999999999999:1:1-1",
        "{topic}:0:9999999999999999999:1:1-1",
        "../etc:0:0:1:1-1",
        "{topic}:0:0:1:1-1:more",
        "{topic}:0:0:1:1-1\n",
        "\u0664:0:0:1:1-1",
        "x" * 100_000,
    ],
)
def test_malformed_receipts_are_400(queue: HttpQueue, verb: str, receipt: str) -> None:
    receipt = receipt.format(topic=queue.topic)
    assert queue.settle(verb, receipt, status=400)["code"] == "invalid_receipt"
    [result] = queue.settle_many(verb, [receipt])
    assert (result["success"], result["code"]) == (False, "invalid_receipt")


@pytest.mark.parametrize("verb", SETTLING)
@pytest.mark.parametrize(
    "receipt",
    [
        "no-such-topic:0:0:1:1-1",
        "{topic}:99999:0:1:1-1",
        "{topic}:1:0:1:1-1",
        "{topic}:0:0:1:ffffffffffffffff-ffffffffffffffff",
        "{topic}:0:9223372036854775807:1:1-1",
        "{topic}:0:0:999999999:1-1",
    ],
)
def test_foreign_receipts_are_410(queue: HttpQueue, verb: str, receipt: str) -> None:
    queue.publish("a")
    queue.receive_one()
    foreign = receipt.format(topic=queue.topic)
    assert queue.settle(verb, foreign, status=410)["code"] == "lease_lost"


@pytest.mark.parametrize("verb", SETTLING)
def test_a_receipt_that_was_changed_is_refused(queue: HttpQueue, verb: str) -> None:
    queue.publish("a", "b")
    held, other = queue.receive(), queue.receive("others")
    topic, partition, offset, attempt, nonce = held[0]["receipt_handle"].split(":")
    group_id, lease_id = nonce.split("-")
    foreign_group = other[0]["receipt_handle"].split(":")[4].split("-")[0]
    for changed in (
        f"{topic}:{partition}:2:{attempt}:{nonce}",
        f"{topic}:{partition}:{offset}:{attempt}:{foreign_group}-{lease_id}",
        f"{topic}:{partition}:{offset}:{attempt}:{group_id}-{int(lease_id, 16) + 1000:x}",
    ):
        assert queue.settle(verb, changed, status=410)["code"] == "lease_lost"
    assert queue.settle("ack", held[0])["success"]
    assert queue.settle("ack", held[1])["success"]


@pytest.mark.parametrize("verb", SETTLING)
@pytest.mark.parametrize("first", ["ack", "nack", "reject"])
def test_a_replayed_receipt_is_410(queue: HttpQueue, first: str, verb: str) -> None:
    queue.publish("a")
    message = queue.receive_one()
    queue.settle(first, message, **({"delay": "1h"} if first == "nack" else {}))
    assert queue.settle(verb, message, status=410)["code"] == "lease_lost"


@pytest.mark.parametrize("verb", SETTLING)
def test_an_expired_receipt_is_410_when_another_has_the_message(queue: HttpQueue, verb: str) -> None:
    queue.publish("a")
    expired = queue.receive_one(visibility="1ms")
    again = queue.receive_one(consumer="two")
    assert again["attempt"] == 2
    assert queue.settle(verb, expired, status=410)["code"] == "lease_lost"
    assert queue.settle("ack", again)["success"]


def test_a_receipt_of_a_topic_that_was_created_again_is_410(queue: HttpQueue) -> None:
    queue.publish("a")
    old = queue.receive_one()
    queue.call("DELETE", f"/topics/{queue.topic}")
    assert queue.settle("ack", old, status=410)["code"] == "lease_lost"
    queue.call("POST", "/topics", {"name": queue.topic, "partitions": 1}, status=201)
    queue.publish("b")
    new = queue.receive_one()
    assert (new["value"], new["attempt"]) == ("b", 1)
    assert queue.settle("ack", old, status=410)["code"] == "lease_lost"
    assert queue.settle("ack", new)["success"]


def test_receives_that_are_refused(queue: HttpQueue) -> None:
    queue.publish("a")
    queue.receive()
    assert queue.receive(ordering="key", status=409)["code"] == "group_ordering_mismatch"
    assert queue.receive("b", ordering="sometimes", status=400)["code"] == "invalid_request"
    queue.call("POST", "/groups/stream/join", {"client_id": "a", "topics": [queue.topic]})
    assert queue.receive("stream", status=409)["code"] == "group_kind_mismatch"
    queue.call("POST", "/topics/no-such/receive", {"group": "g"}, status=404)
    queue.call("POST", f"/topics/{queue.topic}/receive", {}, status=400)
    join = {"client_id": "a", "topics": [queue.topic]}
    assert queue.call("POST", "/groups/workers/join", join, status=409)["code"] == "group_kind_mismatch"
    queue.call("GET", f"/topics/{queue.topic}/queues/no-such", status=404)
    queue.call("GET", "/topics/no-such/queues", status=404)


@pytest.mark.parametrize("accept", ["application/json", "application/msgpack"])
def test_large_answers(queue: HttpQueue, accept: str) -> None:
    queue.publish(*[f"{number:05}" + "é" * 300 for number in range(1500)])
    with httpx.Client(base_url=queue.broker.http, timeout=60) as http:
        body = {"group": "g", "max_messages": 10_000, "consumer": "one"}
        answer = http.post(f"/topics/{queue.topic}/receive", json=body, headers={"accept": accept})
    decode = msgspec.json.decode if accept == "application/json" else msgspec.msgpack.decode
    messages = decode(answer.content)["messages"]
    assert [int(message["value"][:5]) for message in messages] == list(range(len(messages)))
    assert len(messages) == 1000, "max_unacked is 1,000"
    results = queue.settle_many("ack", messages)
    assert all(result["success"] for result in results)
    rest = queue.receive("g", max_messages=10_000)
    assert [int(message["value"][:5]) for message in rest] == list(range(1000, 1500))


def test_depth_and_age(queue: HttpQueue) -> None:
    queue.publish("a", "b", "c")
    queue.publish("d", priority="critical")
    assert values(queue.receive(max_messages=2)) == ["d", "a"]
    [shown] = queue.call("GET", f"/topics/{queue.topic}/queues")["queues"]
    assert shown == queue.depth() | {"oldest_age": shown["oldest_age"]}
    assert shown["ready_by_priority"] == {"critical": 0, "high": 0, "normal": 2, "low": 0, "background": 0}
    assert (shown["group"], shown["topic"], shown["ready"], shown["leased"]) == ("workers", queue.topic, 2, 2)
    assert (shown["retrying"], shown["delayed"], shown["dead"]) == (0, 0, 0)
    assert (shown["consumers"], shown["blocked_keys"]) == ({"one": 2}, [])
    assert 0 <= shown["oldest_age"] < 60
    [message] = queue.receive(max_messages=1)
    queue.settle("nack", message, delay="1h")
    assert (queue.depth()["ready"], queue.depth()["retrying"]) == (1, 1)
    [message] = queue.receive()
    queue.settle("reject", message)
    queue.dead_letters(1)
    assert (queue.depth()["ready"], queue.depth()["dead"]) == (0, 1)


def test_keys_that_are_blocked_are_named_and_counted(queue: HttpQueue) -> None:
    queue.publish("a1", "a2", "a3", key="a")
    queue.publish_messages([{"value": "b1", "key_base64": "/w=="}, {"value": "b2", "key_base64": "/w=="}])
    for message in queue.receive("lanes", ordering="key", max_messages=5):
        if message["value"].endswith("1"):
            queue.settle("nack", message, delay="1h")
    assert queue.depth("lanes")["blocked_keys"] == [{"key": "a", "waiting": 2}, {"key_base64": "/w==", "waiting": 1}]
    assert len(queue.receive("one-by-one", ordering="key", max_messages=1)) == 1
    depth = queue.depth("one-by-one")
    assert [depth[what] for what in ("ready", "leased", "retrying", "blocked")] == [2, 1, 0, 2]
    assert queue.call("GET", "/groups/one-by-one")["lag"] == 4, "they are left to do, though not ready"


def test_the_counters_of_reliability_move(queue: HttpQueue) -> None:
    queue.publish(*"abcde")
    acked, given_back, rejected, extended, _ = queue.receive("counted")
    queue.settle("ack", acked)
    queue.settle("nack", given_back, delay="1h")
    queue.settle("reject", rejected)
    queue.settle("visibility", extended, timeout="1m")
    stats = queue.call("GET", "/reliability/stats")
    of_topic = stats["topics"][queue.topic]
    expected = {
        "deliveries_total": 5,
        "acks_total": 1,
        "nacks_total": 1,
        "rejects_total": 1,
        "dlq_messages": 1,
        "visibility_extensions": 1,
        "in_flight": 2,
        "lost_to_retention": 0,
        "expired_leases_total": 0,
    }
    assert of_topic == expected | {"groups": {"counted": expected}}
    assert all(stats[name] >= value for name, value in expected.items())
    queue.settle("visibility", extended, timeout=0)
    queue.wait_for_depth("counted", leased=1)
    again = queue.call("GET", "/reliability/stats")["topics"][queue.topic]
    assert (again["expired_leases_total"], again["in_flight"]) == (1, 1)


def test_the_counters_of_priorities_move(queue: HttpQueue) -> None:
    before = queue.call("GET", "/priority/stats")["messages_by_priority"]
    queue.publish(*"abc", priority="high")
    queue.publish("d")

    def partition() -> dict[str, list[float]]:
        return dict(queue.call("GET", "/priority/stats")["topics"][queue.topic]["partitions"]["0"])

    assert partition()["ready"] == [0, 3, 1, 0, 0]
    queue.receive("p", max_messages=2)
    shown = partition()
    assert (shown["ready"], shown["in_flight"]) == ([0, 1, 1, 0, 0], [0, 2, 0, 0, 0])
    assert shown["enqueue_rate"][1] > shown["enqueue_rate"][2] > shown["enqueue_rate"][0] == 0
    assert shown["dequeue_rate"][1] > shown["dequeue_rate"][2] == 0
    assert shown["last_served"][1]
    assert shown["last_served"][2] is None
    stats = queue.call("GET", "/priority/stats")
    assert stats["messages_by_priority"]["high"] == before["high"] + 3
    assert stats["messages_by_priority"]["normal"] == before["normal"] + 1
    assert set(stats["avg_wait_time_by_priority"]) == {"critical", "high", "normal", "low", "background"}
    assert 0 <= stats["avg_wait_time_by_priority"]["high"] < 60


def test_settings_of_queues_by_topic_and_by_group(shared_broker: BrokerProcess) -> None:
    queue = HttpQueue(shared_broker, max_attempts=2, visibility="5m", max_unacked=3)
    config = queue.call("GET", f"/topics/{queue.topic}")["config"]
    assert (config["max_attempts"], config["visibility"], config["max_unacked"]) == (2, "5m", 3)
    queue.publish(*"abcde")
    assert len(queue.receive("mine", max_messages=10)) == 3
    queue.set_group("mine", max_unacked=4)
    assert queue.call("GET", "/groups/mine")["config"]["max_unacked"] == 4
    assert len(queue.receive("mine", max_messages=10)) == 1
    queue.set_group("mine", max_unacked="default")
    assert "max_unacked" not in queue.call("GET", "/groups/mine")["config"]
    assert queue.receive("mine", max_messages=10) == []
    queue.call("PATCH", "/groups/mine", {"max_attempts": 0}, status=400)
    queue.call("POST", "/topics", {"name": "bad", "visibility": "0s"}, status=400)
