"""Queen's interface: numbers for dashboards, traces of consumers, and maintenance modes."""

import threading

import pytest

from blackbox.callers.queen_caller import QueenCaller, data
from blackbox.processes.broker_process import BrokerProcess, wait_until


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def test_the_status_counts_what_happened(queue: QueenCaller) -> None:
    queue.push(1, 2, 3)
    messages = queue.popped(2)
    queue.ack(messages[0])
    one = queue.call("GET", f"/status/queues/{queue.queue}")
    assert one["messages"] == {"total": 3, "pending": 1, "processing": 1, "completed": 1, "deadLetter": 0}
    assert [each["name"] for each in one["groups"]] == ["__QUEUE_MODE__"]
    [listed] = queue.call("GET", f"/status/queues?queue={queue.queue}")["queues"]
    assert listed["messages"] == one["messages"]
    assert len(queue.call("GET", f"/status/queues/{queue.queue}/messages")["messages"]) == 3

    def ingested() -> int:
        return sum(int(each["ingested"]) for each in queue.call("GET", "/status")["throughput"])

    before = ingested()
    wait_until(lambda: queue.push(0) and ingested() > before, 60, "the series moves")
    status = queue.call("GET", f"/status?queue={queue.queue}")
    assert status["queues"] == 1
    assert status["leases"] == {"active": 1}
    assert {"throughput", "messages", "deadLetterQueue", "workers", "errors"} <= status.keys()
    analytics = queue.call("GET", f"/status/analytics?interval=hour&queue={queue.queue}")
    assert analytics["topQueues"][0]["name"] == queue.queue
    assert queue.call("GET", "/status/analytics?interval=year", status=400)
    assert queue.call("GET", "/status?from=soon", status=400)
    assert queue.call("GET", "/status/queues/nobody", status=404)


def test_traces_are_found_by_message_and_by_name(queue: QueenCaller) -> None:
    [pushed] = queue.push(1, ids=["t/1"])
    about = {"transactionId": "t/1", "partitionId": pushed["partition_id"]}
    name = f"flow {queue.queue}"
    first = queue.call("POST", "/traces", {**about, "data": {"step": 1}, "traceNames": name}, status=201)
    more = {"data": "done", "traceNames": [name, "all"], "eventType": "end", "consumerGroup": "g"}
    queue.call("POST", "/traces", {**about, **more}, status=201)
    queue.call("POST", "/traces", {**about, "transactionId": "t2", "data": None, "traceNames": name}, status=201)
    found = queue.call("GET", f"/traces/{about['partitionId']}/t%2F1")["traces"]
    assert [(each["data"], each["event_type"]) for each in found] == [("done", "end"), ({"step": 1}, None)]
    assert found[1]["id"] == first["traceId"]
    named = queue.call("GET", f"/traces/by-name/{name.replace(' ', '%20')}?limit=2")
    assert (len(named["traces"]), named["total"]) == (2, 3)
    [counted] = [each for each in queue.call("GET", "/traces/names")["names"] if each["trace_name"] == name]
    assert (counted["trace_count"], counted["message_count"]) == (3, 2)
    for bad in ({}, {**about}, {"data": 1, "transactionId": "t"}, {**about, "data": 1, "traceNames": 7}):
        queue.call("POST", "/traces", bad, status=400)


def test_pushes_wait_in_order_while_push_maintenance_is_on(broker: BrokerProcess) -> None:
    queue = QueenCaller(broker, "orders")
    queue.push("before", ids=["t0"])
    assert queue.call("POST", "/system/maintenance", {"enabled": True})["maintenanceMode"] is True
    results = queue.push("a", "b", ids=["t1", "t0"])
    assert [each["status"] for each in results] == ["buffered", "buffered"]
    [unnamed] = queue.push("c")
    broker.restart(kill=True)
    shown = queue.call("GET", "/system/maintenance")
    assert (shown["maintenanceMode"], shown["bufferedMessages"]) == (True, 3)
    assert queue.push("d")[0]["status"] == "buffered"
    assert data(queue.popped(1)) == ["before"]
    assert queue.call("POST", "/system/maintenance", {"enabled": False})["maintenanceMode"] is False
    done = threading.Event()

    def is_direct() -> bool:
        return not done.is_set() and queue.push("e", partition="other")[0]["status"] == "queued"

    wait_until(is_direct, 30, "pushes go to their queue again")
    assert queue.call("GET", "/status/buffers")["bufferedMessages"] == 0
    queue.call("POST", "/consumer-groups/g/subscription", {"subscriptionTimestamp": "2020-01-01T00:00:00Z"})
    found = queue.popped(4, consumerGroup="g", partition="Default")
    assert data(found) == ["before", "a", "c", "d"], "t0 was there already"
    assert found[2]["transactionId"] == unnamed["transaction_id"]


def test_pops_get_nothing_while_pop_maintenance_is_on(broker: BrokerProcess) -> None:
    queue = QueenCaller(broker, "orders")
    queue.push(1)
    assert queue.call("POST", "/system/maintenance/pop", {"enabled": True})["popMaintenanceMode"] is True
    assert queue.pop() is None
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.extend(data(queue.popped(1))), daemon=True)
    waiting.start()
    assert queue.call("GET", "/system/maintenance/pop")["popMaintenanceMode"] is True
    queue.call("POST", "/system/maintenance/pop", {"enabled": False})
    waiting.join(30)
    assert found == [1]
    for path in ("", "/pop"):
        queue.call("POST", f"/system/maintenance{path}", {}, status=400)
