"""Queen's interface: acknowledgements and pushes that take effect together or not at all."""

from typing import Any

import pytest

from blackbox.callers.queen_caller import QueenCaller, data, named
from blackbox.processes.broker_process import BrokerProcess


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


@pytest.fixture
def target(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def ack(message: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": "ack", **named(message), "status": status, **more}


def push(queue: QueenCaller, *payloads: Any, **more: Any) -> dict[str, Any]:
    return {"type": "push", "items": [{"queue": queue.queue, "payload": each, **more} for each in payloads]}


def run(queue: QueenCaller, *operations: Any, **more: Any) -> Any:
    return queue.call("POST", "/transaction", {"operations": list(operations), **more})


def test_acks_and_pushes_take_effect_together(queue: QueenCaller, target: QueenCaller) -> None:
    queue.push(1, 2, 3)
    messages = queue.popped(3)
    done = run(queue, ack(messages[1]), push(target, "a", "b", partition="p"), ack(messages[2]))
    assert done["success"] is True
    assert [result["type"] for result in done["results"]] == ["ack", "push", "push", "ack"]
    assert [result["index"] for result in done["results"]] == [0, 1, 2, 3]
    assert done["results"][0]["messageId"] == messages[1]["id"]
    assert queue.pop() is None
    popped = target.popped(2)
    assert data(popped) == ["a", "b"]
    pushed = [result for result in done["results"] if result["type"] == "push"]
    assert [each["id"] for each in popped] == [each["messageId"] for each in pushed]
    assert {each["partitionId"] for each in popped} == {each["partitionId"] for each in pushed}


def test_a_lease_that_is_lost_fails_the_whole_transaction(queue: QueenCaller, target: QueenCaller) -> None:
    queue.push(1, 2, partition="a")
    queue.push(3, partition="b")
    gone = queue.popped(2, partition="a")
    queue.ack(gone[0], "retry")
    [held] = queue.popped(1, partition="b")
    failed = run(queue, ack(held), ack(gone[1]), push(target, "x"))
    assert (failed["success"], failed["error"]) == (False, "Invalid or expired lease")
    assert [result["success"] for result in failed["results"]] == [False] * 3
    assert target.pop() is None
    assert queue.ack(held)["success"] is True, "nothing of it took effect"
    assert len(queue.popped(2, partition="a")) == 2
    unknown = run(queue, ack({**held, "transactionId": "nobody", "leaseId": None}), push(target, "x"))
    assert (unknown["success"], unknown["error"]) == (False, "Message not found")
    assert target.pop() is None


def test_required_leases_fence_acks_without_a_lease(queue: QueenCaller, target: QueenCaller) -> None:
    queue.push(1, 2)
    first = queue.popped(2)
    bare = [{**message, "leaseId": None} for message in first]
    fenced = run(queue, ack(bare[0]), push(target, 1), requiredLeases=["1.1.0.1"])
    assert (fenced["success"], fenced["error"]) == (False, "Invalid or expired lease")
    lease = first[0]["leaseId"]
    assert run(queue, ack(bare[0]), push(target, 1), requiredLeases=[lease])["success"] is True
    assert queue.ack(first[1])["success"] is True
    late = run(queue, push(target, 2), requiredLeases=[lease])
    assert late["success"] is False, "the lease holds nothing more"
    assert data(target.popped(1)) == [1]


def test_a_transaction_that_is_sent_again_does_nothing(queue: QueenCaller, target: QueenCaller) -> None:
    queue.push(1)
    [message] = queue.popped()
    assert run(queue, ack(message), push(target, "once"))["success"] is True
    assert run(queue, ack(message), push(target, "once"))["success"] is False
    assert run(queue, push(target, "t", transactionId="t"))["results"][0]["status"] == "queued"
    again = run(queue, push(target, "t", "u", transactionId="t"))
    assert [result["status"] for result in again["results"]] == ["duplicate", "duplicate"]
    assert data(target.popped(2)) == ["once", "t"]


def test_what_fails_in_a_transaction_is_a_dead_letter_at_once(queue: QueenCaller) -> None:
    queue.push(1, 2, 3, 4, ids=["a", "b", "c", "d"])
    messages = queue.popped(4)
    done = run(
        queue, ack(messages[0], "failed", error="no order"), ack(messages[2], "dlq"), ack(messages[3], "retry")
    )
    assert [result["dlq"] for result in done["results"]] == [True, True, False]
    letters = {letter["transactionId"]: letter for letter in queue.dead()}
    assert set(letters) == {"a", "c"}
    assert (letters["a"]["data"], letters["a"]["errorMessage"]) == (1, "no order")
    assert letters["a"]["id"] == messages[0]["id"]
    assert data(queue.popped(1)) == [4]


def test_acks_without_a_lease_settle_what_nobody_holds(queue: QueenCaller) -> None:
    [first, second] = queue.push(1, 2, ids=["a", "b"])
    queue.popped(1, consumerGroup="g")
    queue.popped(1, autoAck=True)
    bare = {"transactionId": "b", "partitionId": second["partition_id"]}
    assert run(queue, ack(bare), ack({**bare, "transactionId": "a", "partitionId": first["partition_id"]}))["success"]
    assert queue.pop() is None


def test_bad_transactions_are_refused(queue: QueenCaller) -> None:
    for bad in (
        {},
        {"operations": []},
        {"operations": [{"type": "perhaps"}]},
        {"operations": [{"type": "ack"}]},
        {"operations": [{"type": "push", "items": [{"payload": 1}]}]},
        {"operations": [push(queue, 1, traceId="no")]},
        {"operations": [push(queue, 1), {"type": "ack", "transactionId": "t", "partitionId": "p", "status": "x"}]},
    ):
        queue.call("POST", "/transaction", bad, status=400)
    assert queue.pop() is None


def test_a_transaction_survives_a_kill(broker: BrokerProcess) -> None:
    queue, target = QueenCaller(broker, "in"), QueenCaller(broker, "out")
    queue.push(*range(100), partition="p")
    messages = queue.popped(100)
    assert run(queue, ack(messages[49]), push(target, *range(50), partition="q"))["success"] is True
    broker.restart(kill=True)
    assert data(target.popped(50)) == list(range(50))
    assert run(queue, ack(messages[99]), push(target, "last", partition="r"))["success"] is True
    assert queue.pop() is None
    assert data(target.popped(1, partition="r")) == ["last"]
