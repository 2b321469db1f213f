"""Queen's interface: what acknowledgements do, with leases, retries, dead letters and restarts."""

from datetime import datetime, timedelta

import pytest

from blackbox.callers.queen_caller import QueenCaller, data
from blackbox.processes.broker_process import BrokerProcess


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def test_an_ack_settles_the_messages_before_it(queue: QueenCaller) -> None:
    queue.push(1, 2, 3, 4)
    messages = queue.popped(4)
    assert queue.ack(messages[2])["leaseReleased"] is False
    assert queue.ack(messages[0])["success"] is True, "settled already"
    assert queue.ack(messages[3], "success")["leaseReleased"] is True
    assert queue.pop() is None


def test_a_message_that_failed_is_not_swallowed_by_a_later_ack(queue: QueenCaller) -> None:
    queue.push(1, 2, 3, 4)
    messages = queue.popped(4)
    marks = ["completed", "failed", "completed", "completed"]
    results = queue.ack_batch(*zip(messages, marks, strict=True))
    assert all(result["leaseReleased"] for result in results)
    again = queue.popped(3)
    assert data(again) == [2, 3, 4]
    late = queue.ack(messages[3])
    assert (late["success"], late["error"]) == (False, "Invalid or expired lease")
    assert queue.ack(again[-1])["success"] is True


def test_a_batch_comes_again_up_to_its_limit_and_then_its_dead_letters(queue: QueenCaller) -> None:
    queue.configure(retryLimit=2)
    queue.push("a", "b", "c", ids=["ta", "tb", "tc"])
    for _ in range(2):
        messages = queue.popped(3)
        assert data(messages) == ["a", "b", "c"]
        assert not any(result["dlq"] for result in queue.ack_batch((messages[0], "failed"), (messages[1], "failed")))
    messages = queue.popped(3)
    for _ in range(3):
        queue.ack(messages[0], "retry")
        messages = queue.popped(3)
    results = queue.ack_batch((messages[0], "failed"), (messages[1], "failed"))
    assert [result["dlq"] for result in results] == [True, True]
    assert queue.ack(messages[2])["leaseReleased"] is True
    assert queue.pop() is None
    dead = queue.dead()
    assert {letter["transactionId"]: letter["data"] for letter in dead} == {"ta": "a", "tb": "b"}
    assert dead[0]["retryCount"] >= 0
    assert len(queue.dead(limit=1)) == 1
    assert len(queue.dead(offset=1)) == 1
    assert queue.dead(consumerGroup="nobody") == []


def test_a_message_goes_to_the_dead_letters_at_once(queue: QueenCaller) -> None:
    queue.push(1, 2)
    messages = queue.popped(2)
    result = queue.ack(messages[0], "dlq", error="not an order")
    assert (result["success"], result["dlq"], result["leaseReleased"]) == (True, True, False)
    [letter] = queue.dead()
    assert (letter["data"], letter["errorMessage"]) == (1, "not an order")
    assert letter["partitionId"] == messages[0]["partitionId"]
    assert queue.ack(messages[1])["success"] is True


def test_acks_that_find_nothing_say_so(queue: QueenCaller) -> None:
    [result] = queue.push(1)
    [message] = queue.popped()
    unknown = queue.ack({**message, "transactionId": "nobody"})
    assert (unknown["success"], unknown["error"]) == (False, "Invalid or expired lease")
    unknown = queue.ack({"transactionId": "nobody", "partitionId": message["partitionId"]})
    assert (unknown["success"], unknown["error"]) == (False, "Message not found")
    for bad in ("", "zz", "ffffff-AAAA", message["partitionId"] + "!"):
        assert queue.ack({**message, "partitionId": bad})["success"] is False
    other = queue.ack({**message, "leaseId": "1.1.0.1"})
    assert (other["success"], other["error"]) == (False, "Invalid or expired lease")
    assert queue.call("POST", "/ack", {**message, "status": "perhaps"}, status=400)
    assert queue.ack({"transactionId": result["transaction_id"], "partitionId": message["partitionId"]})["success"]
    assert queue.pop() is None


def test_an_ack_without_a_lease_settles_what_nobody_holds(queue: QueenCaller) -> None:
    first, second, _ = queue.push(1, 2, 3, ids=["a", "b", "c"])
    named = {"transactionId": "b", "partitionId": second["partition_id"]}
    queue.popped(1, consumerGroup="g")
    queue.popped(1, autoAck=True)
    assert queue.ack(named)["success"] is True
    assert data(queue.popped()) == [3]
    assert queue.ack({**named, "transactionId": "a", "partitionId": first["partition_id"]})["success"] is True


def test_groups_and_queue_mode_have_positions_of_their_own(queue: QueenCaller) -> None:
    queue.push(1, 2)
    for group in ("g", "h"):
        messages = queue.popped(2, consumerGroup=group)
        assert {message["consumerGroup"] for message in messages} == {group}
        assert queue.ack(messages[1])["success"] is True
    messages = queue.popped(2)
    assert messages[0]["consumerGroup"] is None
    wrong = queue.ack({**messages[0], "consumerGroup": "g"})
    assert wrong["success"] is False
    assert queue.pop(consumerGroup="late", subscriptionMode="new") is None
    assert queue.pop(consumerGroup="later", subscriptionFrom="now") is None
    assert len(queue.popped(2, consumerGroup="all", subscriptionFrom="2020-01-01T00:00:00Z")) == 2
    queue.push(3)
    assert data(queue.popped(1, consumerGroup="late", subscriptionMode="all")) == [3]


def test_a_lease_lasts_as_long_as_it_is_extended(queue: QueenCaller) -> None:
    queue.configure(leaseTime=1)
    queue.push(1, 2)
    messages = queue.popped(2)
    lease = messages[0]["leaseId"]
    [extended] = queue.call("POST", f"/lease/{lease}/extend")
    assert (extended["success"], extended["error"], extended["leaseId"]) == (True, None, lease)
    [longer] = queue.call("POST", f"/lease/{lease}/extend", {"seconds": 5})
    ends = [datetime.fromisoformat(each["newExpiresAt"]) for each in (extended, longer)]
    assert abs(ends[1] - ends[0]) < timedelta(seconds=10), "the later end stays"
    [lost] = queue.call("POST", "/lease/1.1.0.1/extend", {"seconds": 5})
    assert (lost["success"], lost["error"]) == (False, "Invalid or expired lease")
    assert queue.ack(messages[1])["success"] is True
    [settled] = queue.call("POST", f"/lease/{lease}/extend")
    assert settled["success"] is False


def test_what_expires_comes_again_and_its_lease_is_lost(queue: QueenCaller) -> None:
    queue.configure(leaseTime=1, retryLimit=0)
    queue.push(1)
    [first] = queue.popped()
    [second] = queue.popped()
    assert second["leaseId"] != first["leaseId"]
    assert queue.ack(first)["error"] == "Invalid or expired lease"
    assert queue.ack(second)["success"] is True
    assert queue.dead() == [], "an end of a lease does not count"


def test_acks_work_after_a_restart(broker: BrokerProcess) -> None:
    queue = QueenCaller(broker, "orders")
    queue.push(*range(20), partition="a")
    queue.push(*range(20), partition="b", ids=[f"t{number}" for number in range(20)])
    popped = queue.pop(batch=30, partitions=2)["messages"]
    assert len(popped) == 30
    broker.restart(kill=True)
    last = {message["partition"]: message for message in popped}
    assert queue.ack(last["a"])["success"] is True
    results = queue.ack_batch(*((message, "completed") for message in popped if message["partition"] == "b"))
    assert all(result["success"] for result in results)
    assert queue.ack(last["a"])["success"] is True, "repeated"
    rest = queue.pop(batch=30, partitions=2)["messages"]
    assert data(rest) == list(range(10, 20))
