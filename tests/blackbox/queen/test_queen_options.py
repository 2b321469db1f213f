"""Queen's interface: what the options of a queue do to its messages."""

import time
from typing import Any

import pytest

from blackbox.callers.queen_caller import QueenCaller, data
from blackbox.processes.broker_process import BrokerProcess, wait_until


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def test_delayed_processing_holds_every_push_back(queue: QueenCaller) -> None:
    queue.configure(delayedProcessing=2)
    pushed = time.monotonic()
    [named, other] = queue.push("a", "b", ids=["t"])
    [again] = queue.push("a", ids=["t"])
    assert (again["status"], again["message_id"]) == ("duplicate", named["message_id"])
    assert queue.pop() is None
    item = {"queue": queue.queue, "payload": "c", "partition": "p"}
    done = queue.call("POST", "/transaction", {"operations": [{"type": "push", "items": [item]}]})
    popped = queue.popped(2, partition="Default")
    assert time.monotonic() - pushed >= 2
    assert data(popped) == ["a", "b"]
    assert [each["id"] for each in popped] == [named["message_id"], other["message_id"]]
    assert popped[1]["transactionId"] == other["transaction_id"]
    assert all(result["success"] for result in queue.ack_batch(*((each, "completed") for each in popped)))
    [last] = queue.popped(1, partition="p")
    assert (last["data"], last["id"]) == ("c", done["results"][0]["messageId"])


def test_a_window_opens_when_nothing_was_pushed_for_its_time(queue: QueenCaller) -> None:
    queue.configure(windowBuffer=2)
    queue.push(*range(5), partition="busy")
    for number in range(5, 8):
        assert queue.pop(batch=10, wait=True, timeout=700) is None
        queue.push(number, partition="busy")
    pushed = time.monotonic()
    found = queue.popped(3)
    assert time.monotonic() - pushed >= 1.5
    assert data(found) == [0, 1, 2]
    assert queue.ack(found[2])["leaseReleased"] is True
    rest: list[Any] = []
    while len(rest) < 5:
        popped = queue.pop(batch=5, wait=True, timeout=20_000)["messages"]
        rest += data(popped)
        queue.ack(popped[-1])
    assert rest == [3, 4, 5, 6, 7]


def test_messages_that_waited_for_too_long_are_dead_letters(queue: QueenCaller) -> None:
    queue.configure(maxWaitTimeSeconds=1, leaseTime=1)
    queue.push("old")
    wait_until(lambda: queue.pop() is None and bool(queue.dead()), 30, "a dead letter")
    assert data(queue.dead()) == ["old"]
    queue.push("new")
    assert data(queue.popped(1)) == ["new"]


def test_completed_messages_are_removed_after_their_time(start_broker: Any) -> None:
    broker = start_broker()
    queue = QueenCaller(broker, "orders")
    queue.configure(retentionEnabled=True, completedRetentionSeconds=1)
    queue.push(*range(10), partition="a")
    queue.pop(consumerGroup="slow", batch=1, autoAck=True)
    queue.pop(batch=10, autoAck=True)

    def stored() -> int:
        return int(queue.call("GET", "/resources/queues/orders")["totals"]["total"])

    assert stored() == 10
    queue.pop(consumerGroup="slow", batch=10, autoAck=True)
    wait_until(lambda: stored() == 0, 60, "what every group has acked is removed")
    queue.push("later", partition="a")
    assert data(queue.popped(1)) == ["later"]


def test_encryption_is_refused(queue: QueenCaller) -> None:
    assert "encrypt" in queue.configure(encryptionEnabled=True, status=400)["error"]
    assert queue.call("GET", f"/resources/queues/{queue.queue}", status=404)


def test_a_queue_of_limited_size_takes_no_more(queue: QueenCaller) -> None:
    queue.configure(maxSize=3)
    assert [each["status"] for each in queue.push(1, 2)] == ["queued", "queued"]
    refused = queue.push(3, 4)
    assert [each["status"] for each in refused] == ["failed", "failed"]
    assert "maxSize is 3" in refused[0]["error"]
    [first] = queue.popped(1)
    assert queue.push(3)[0]["status"] == "queued", "what is processed counts too"
    assert queue.push(4)[0]["status"] == "failed"
    queue.ack(first)
    assert queue.push(4)[0]["status"] == "queued"


def test_a_batch_that_failed_comes_again_after_the_delay_that_was_asked_for(queue: QueenCaller) -> None:
    shown = queue.configure(retryDelay=1500, ttl=7200)["options"]
    assert (shown["retryDelay"], shown["ttl"], shown["maxSize"]) == (1500, 7200, 0)
    queue.push(1, 2)
    failed = time.monotonic()
    queue.ack(queue.popped(2)[0], "failed")
    assert queue.pop() is None
    assert data(queue.popped(2)) == [1, 2]
    assert time.monotonic() - failed >= 1.4


def test_pops_of_a_namespace_begin_with_the_highest_priority(queue: QueenCaller) -> None:
    space, urgent = f"space-{queue.queue}", QueenCaller(queue.broker)
    queue.configure(namespace=space, priority=1)
    urgent.configure(namespace=space, priority=9)
    path = f"/pop?namespace={space}&autoAck=true"
    queue.call("GET", path, status=204)
    for number in range(3):
        queue.push(f"usual {number}")
        urgent.push(f"urgent {number}")
    popped = [queue.call("GET", path)["messages"][0]["data"] for _ in range(6)]
    assert popped == [*(f"urgent {number}" for number in range(3)), *(f"usual {number}" for number in range(3))]
