"""Queen's interface: queues, namespaces, groups and messages for people and tools, and what they can do with them."""

from typing import Any

import pytest

from blackbox.callers.queen_caller import QueenCaller, data
from blackbox.processes.broker_process import BrokerProcess, wait_until


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def groups_of(queue: QueenCaller, path: str = "/consumer-groups") -> dict[str, Any]:
    return {each["name"]: each for each in queue.call("GET", path) if each["queueName"] == queue.queue}


def test_queues_are_counted(queue: QueenCaller) -> None:
    queue.configure(namespace=f"ns-{queue.queue}", task="work", leaseTime=60)
    queue.push(1, 2, 3, partition="a")
    queue.push(4, partition="b")
    [first, *_] = queue.popped(2, partition="a")
    listed = queue.call("GET", f"/resources/queues?namespace=ns-{queue.queue}")["queues"]
    [one] = listed
    assert (one["name"], one["task"], one["partitions"]) == (queue.queue, "work", 2)
    assert one["messages"] == {"total": 4, "pending": 2, "processing": 2, "completed": 0}
    detail = queue.call("GET", f"/resources/queues/{queue.queue}")
    assert {each["name"]: each["messages"]["total"] for each in detail["partitions"]} == {"a": 3, "b": 1}
    listed = queue.call("GET", f"/resources/partitions?queue={queue.queue}&limit=1&offset=1")
    assert (listed["total"], [each["name"] for each in listed["partitions"]]) == (2, ["b"])
    assert queue.call("GET", f"/resources/queues/{queue.queue}/depth")["depth"] == 4
    assert (detail["totals"]["total"], detail["options"]["leaseTime"], detail["id"]) == (4, 60, one["id"])
    spaces = queue.call("GET", "/resources/namespaces")["namespaces"]
    assert [each["messages"]["total"] for each in spaces if each["namespace"] == f"ns-{queue.queue}"] == [4]
    assert "work" in [each["task"] for each in queue.call("GET", "/resources/tasks")["tasks"]]
    assert queue.call("GET", "/resources/overview")["queues"] >= 1
    assert queue.ack(first)["success"] is True
    queue.call("DELETE", f"/queues/{queue.queue}/clear?partition=b")
    assert queue.pop(partition="b") is None
    queue.call("DELETE", f"/queues/{queue.queue}/clear")
    assert queue.call("GET", f"/resources/queues/{queue.queue}/depth")["depth"] == 0
    for existed in (True, False):
        gone = queue.call("DELETE", f"/resources/queues/{queue.queue}")
        assert gone == {"deleted": True, "queue": queue.queue, "existed": existed}
    assert queue.call("GET", f"/resources/queues/{queue.queue}", status=404)
    assert queue.pop() is None


def test_a_pop_by_namespace_and_task(queue: QueenCaller) -> None:
    other = QueenCaller(queue.broker)
    space = f"space-{queue.queue}"
    queue.configure(namespace=space, task="x")
    other.configure(namespace=space, task="y")
    queue.push(1)
    other.push(2)
    path = f"/pop?namespace={space}"
    popped = [queue.call("GET", path)["messages"][0] for _ in range(2)]
    assert sorted(data(popped)) == [1, 2]
    assert {each["queue"] for each in popped} == {queue.queue, other.queue}
    assert all(queue.ack(each)["success"] for each in popped)
    assert queue.call("GET", path, status=204) is None
    other.push(3)
    assert queue.call("GET", f"{path}&task=x", status=204) is None
    assert data(queue.call("GET", f"{path}&task=y&wait=true")["messages"]) == [3]
    assert queue.call("GET", "/pop", status=400)


def test_groups_show_how_far_behind_they_are(queue: QueenCaller) -> None:
    queue.push(1, 2, 3, partition="a")
    messages = queue.popped(2, consumerGroup="g")
    found = groups_of(queue)["g"]
    assert (found["totalLag"], found["topics"], found["subscriptionMode"]) == (3, [queue.queue], "all")
    assert found["state"] in ("Stable", "Dead")
    held = queue.call("GET", "/consumer-groups/g")[queue.queue]
    assert [each["partition"] for each in held["partitions"]] == ["a"]
    assert queue.ack(messages[1])["success"] is True
    queue.ack(queue.popped(1, consumerGroup="g")[0])
    assert groups_of(queue)["g"]["totalLag"] == 0
    assert "g" not in groups_of(queue, "/consumer-groups/lagging?minLagSeconds=0")
    queue.push(4)
    assert "g" in groups_of(queue, "/consumer-groups/lagging?minLagSeconds=0")
    assert queue.call("GET", "/consumer-groups/nobody", status=404)
    assert queue.call("GET", "/consumer-groups/lagging?minLagSeconds=x", status=400)


def test_a_group_that_is_deleted_begins_again(queue: QueenCaller) -> None:
    group = f"g-{queue.queue}"
    queue.push(1, 2)
    other = QueenCaller(queue.broker)
    other.push(9)
    for each in (queue, other):
        each.popped(1, consumerGroup=group, autoAck=True)
    assert queue.call("DELETE", f"/consumer-groups/{group}/queues/{queue.queue}")["success"] is True
    assert data(queue.popped(2, consumerGroup=group)) == [1, 2]
    assert other.pop(consumerGroup=group) is None
    for _ in range(2):
        assert queue.call("DELETE", f"/consumer-groups/{group}")["success"] is True
    assert group not in groups_of(queue)
    assert data(other.popped(1, consumerGroup=group)) == [9]


def test_a_subscription_decides_where_a_group_begins(queue: QueenCaller) -> None:
    queue.push("old")
    group = f"g-{queue.queue}"
    path = f"/consumer-groups/{group}/subscription"
    assert queue.call("POST", path, {"subscriptionTimestamp": "now"})["success"] is True
    assert queue.pop(consumerGroup=group) is None
    queue.push("new")
    assert data(queue.popped(1, consumerGroup=group)) == ["new"]
    found = groups_of(queue)[group]
    assert (found["subscriptionMode"], found["subscriptionTimestamp"] is None) == ("timestamp", False)
    assert queue.pop(consumerGroup=f"{group}-new", subscriptionMode="new") is None
    assert groups_of(queue)[f"{group}-new"]["subscriptionMode"] == "new"
    assert data(queue.popped(2, consumerGroup=f"{group}-all", subscriptionMode="perhaps")) == ["old", "new"]
    for bad in ({}, {"subscriptionTimestamp": "yesterday"}):
        queue.call("POST", path, bad, status=400)


def test_a_group_moves_in_a_queue_and_in_a_partition(queue: QueenCaller) -> None:
    queue.push(1, 2, partition="a")
    queue.push(3, partition="b")
    group = f"g-{queue.queue}"
    path = f"/consumer-groups/{group}/queues/{queue.queue}"
    assert queue.call("POST", f"{path}/seek", {"toEnd": True}, status=404), "the group does not exist"
    for partition in ("a", "b"):
        queue.pop(batch=9, consumerGroup=group, autoAck=True, partition=partition)
    moved = queue.call("POST", f"{path}/seek", {"timestamp": "2020-01-01T00:00:00Z"})
    assert moved["success"] is True
    assert moved["partitionsUpdated"] > 0
    assert sorted(data(queue.pop(batch=9, partitions=9, consumerGroup=group)["messages"])) == [1, 2, 3]
    queue.call("POST", f"{path}/seek", {"toEnd": True})
    assert queue.pop(consumerGroup=group) is None
    queue.push(4, 5, partition="a")
    queue.push(6, partition="b")
    assert queue.call("POST", f"{path}/partitions/a/seek", {"toEnd": True})["partitionsUpdated"] == 1
    assert data(queue.pop(batch=9, partitions=9, consumerGroup=group)["messages"]) == [6]
    queue.call("POST", f"{path}/partitions/b/seek", {"toEnd": True}, status=409)
    for _ in range(2):
        queue.call("POST", f"{path}/partitions/a/seek", {"timestamp": "2020-01-01T00:00:00Z"})
        again = queue.popped(4, partition="a", consumerGroup=group)
        assert data(again) == [1, 2, 4, 5]
        assert queue.ack(again[-1])["leaseReleased"] is True
        assert queue.pop(batch=9, partitions=9, consumerGroup=group) is None, "b is where it was"
    for bad in ({}, {"timestamp": "soon"}, {"toEnd": False}):
        queue.call("POST", f"{path}/seek", bad, status=400)


def test_messages_are_listed_with_where_they_are(queue: QueenCaller) -> None:
    queue.push("a", "b", "c", "d", ids=["ta", "tb", "tc", "td"])
    messages = queue.popped(3)
    queue.ack(messages[0])
    queue.ack(messages[1], "dlq", error="no order")

    def listed(more: str = "") -> dict[str, str]:
        found = queue.call("GET", f"/messages?queue={queue.queue}{more}")["messages"]
        return {each["transactionId"]: each["status"] for each in found}

    expected = {"td": "pending", "tc": "processing", "tb": "dead_letter", "ta": "completed"}
    assert listed() == expected
    assert list(listed()) == ["td", "tc", "tb", "ta"]
    assert listed("&limit=2&offset=1") == {"tc": "processing", "tb": "dead_letter"}
    assert listed("&status=pending") == {"td": "pending"}
    assert listed("&partition=Default") == expected
    assert listed("&partition=other") == {}
    assert listed("&to=2020-01-01T00:00:00Z") == {}
    path = f"/messages/{messages[1]['partitionId']}"
    detail = queue.call("GET", f"{path}/tb")
    assert (detail["payload"], detail["errorMessage"], detail["status"]) == ("b", "no order", "dead_letter")
    assert detail["queueConfig"]["retryLimit"] == 3
    assert [each["status"] for each in detail["consumerGroups"]] == ["dead_letter"]
    assert queue.call("GET", f"{path}/tc")["leaseExpiresAt"] is not None
    assert queue.call("GET", f"{path}/nobody", status=404)
    assert queue.call("GET", "/messages/zz/tb", status=404)
    assert queue.call("GET", f"/messages?queue={queue.queue}&status=perhaps", status=400)


def test_a_dead_letter_comes_again_or_is_deleted(queue: QueenCaller) -> None:
    queue.push("a", "b", ids=["ta", "tb"])
    messages = queue.popped(2)
    queue.ack_batch((messages[0], "dlq"), (messages[1], "dlq"))
    wait_until(lambda: len(queue.dead()) == 2, 30, "two dead letters")
    path = f"/messages/{messages[0]['partitionId']}"
    assert queue.call("POST", f"{path}/ta/retry")["success"] is True
    assert data(queue.popped(1)) == ["a"]
    assert queue.call("DELETE", f"{path}/tb")["deleted"] is True
    wait_until(lambda: queue.dead() == [], 30, "no dead letters")
    assert queue.call("POST", f"{path}/tb/retry", status=404)
    assert queue.call("DELETE", f"{path}/nobody", status=404)
