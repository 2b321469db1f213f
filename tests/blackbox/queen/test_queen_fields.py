"""Queen's interface: the fields and statuses of every route, as Queen's clients expect them."""

from typing import Any

import pytest

from blackbox.callers.queen_caller import QueenCaller, named
from blackbox.processes.broker_process import BrokerProcess

OPTIONS = (
    "leaseTime maxSize ttl retryLimit retryDelay deadLetterQueue dlqAfterMaxRetries priority delayedProcessing "
    "windowBuffer retentionSeconds completedRetentionSeconds retentionEnabled encryptionEnabled maxWaitTimeSeconds "
    "dedupWindowSeconds"
)
POPPED = "id transactionId traceId data producerSub createdAt partitionId partition leaseId consumerGroup"
POP = "success queue partition partitionId leaseId consumerGroup partitionsClaimed messages"
PUSHED = "index transaction_id status message_id partition_id trace_id queueName"
ACKED = "index transactionId success error queueName partitionName leaseReleased dlq"
STEP = "index type success transactionId messageId partitionId queueName error dlq"
LISTED = (
    "id transactionId partitionId queuePath queue partition namespace task status traceId createdAt leaseExpiresAt"
)
DEAD = "id transactionId partitionId queue partition consumerGroup errorMessage retryCount data createdAt failedAt"
GROUP = (
    "name topics queueName members partitionsWithLag totalLag maxTimeLag state subscriptionMode subscriptionTimestamp"
)
MODES = "maintenanceMode popMaintenanceMode bufferedMessages bufferHealthy bufferStats"


def has(found: Any, fields: str, **values: Any) -> Any:
    """The object, which has at least these fields, and these values."""
    missing = set(fields.split()) - found.keys()
    assert not missing, (missing, found)
    assert {name: found[name] for name in values} == values
    return found


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def test_messages_and_their_leases(queue: QueenCaller) -> None:
    name, space = queue.queue, f"space-{queue.queue}"
    shown = has(
        queue.configure(namespace=space, task="t"), "configured queueId partitionId queue namespace task options"
    )
    has(shown["options"], OPTIONS)
    trace = "0f8fad5b-d9cb-469f-a165-70867728950e"
    item = {"queue": name, "partition": "p", "payload": {"n": 1}, "transactionId": "a", "traceId": trace}
    [pushed] = queue.call("POST", "/push", {"items": [item]}, status=201)
    has(pushed, PUSHED, index=0, transaction_id="a", status="queued", trace_id=trace, queueName=name)
    [again] = queue.call("POST", "/push", {"items": [item]}, status=201)
    has(again, PUSHED, status="duplicate", message_id=pushed["message_id"])
    queue.push("b", "c", "d", partition="p", ids=["b", "c", "d"])
    popped = has(queue.pop(batch=2), POP, success=True, queue=name, partition="p", consumerGroup=None)
    first = has(popped["messages"][0], POPPED, transactionId="a", traceId=trace, leaseId=popped["leaseId"])
    [extended] = queue.call("POST", f"/lease/{first['leaseId']}/extend", {})
    has(extended, "index leaseId success error expiresAt newExpiresAt", success=True)
    [acked] = queue.call("POST", "/ack", named(first))
    has(acked, ACKED, success=True, queueName=name, partitionName="p", leaseReleased=False, dlq=False)
    [acked] = queue.call("POST", "/ack/batch", {"acknowledgments": [named(popped["messages"][1])]})
    has(acked, ACKED, success=True, leaseReleased=True)
    by_namespace = queue.call("GET", f"/pop?namespace={space}&task=t&consumerGroup=g&batch=9&autoAck=true")
    assert [
        has(each, POPPED, leaseId="", consumerGroup="g")["transactionId"] for each in by_namespace["messages"]
    ] == [*"abcd"]
    assert queue.pop(consumerGroup="g") is None
    [third] = queue.popped(1, partition="p")
    operations = [{"type": "ack", **named(third), "status": "dlq", "error": "no"}, {"type": "push", "items": [item]}]
    done = queue.call("POST", "/transaction", {"operations": operations, "requiredLeases": [third["leaseId"]]})
    has(done, "transactionId success results", success=True)
    assert [has(each, STEP, success=True)["type"] for each in done["results"]] == ["ack", "push"]
    assert queue.call("POST", "/transaction", {"operations": []}, status=400)
    dead = queue.call("GET", f"/dlq?queue={name}&limit=5&offset=0")
    [letter] = has(dead, "messages pagination")["messages"]
    has(letter, DEAD, transactionId="c", errorMessage="no", data="c", queue=name, partition="p")
    listed = queue.call("GET", f"/messages?queue={name}&partition=p&limit=9")["messages"]
    assert [has(each, LISTED, queue=name, partition="p")["transactionId"] for each in listed] == [*"dcba"]
    one = queue.call("GET", f"/messages/{pushed['partition_id']}/a")
    has(one, f"{LISTED} payload errorMessage retryCount queueConfig consumerGroups", payload={"n": 1})
    assert queue.call("GET", f"/messages/{pushed['partition_id']}/nobody", status=404)


def test_what_operators_see(queue: QueenCaller) -> None:
    name = queue.queue
    queue.configure(namespace="operators", task="t")
    [pushed] = queue.push(1, ids=["a"])
    group = f"g-{name}"
    queue.popped(1, consumerGroup=group)
    counts = "total pending processing"
    has(queue.call("GET", "/resources/overview")["messages"], counts)
    for path, list_name, field in (("namespaces", "namespaces", "namespace"), ("tasks", "tasks", "task")):
        has(queue.call("GET", f"/resources/{path}")[list_name][0], f"{field} queues partitions messages")
    [row] = [each for each in queue.call("GET", "/resources/queues")["queues"] if each["name"] == name]
    has(has(row, "id name namespace task createdAt partitions messages", partitions=1)["messages"], counts)
    one = has(queue.call("GET", f"/resources/queues/{name}"), "id name partitions totals")
    has(one["partitions"][0], "id name", name="Default")
    [found] = [each for each in queue.call("GET", "/consumer-groups") if each["name"] == group]
    has(found, GROUP, queueName=name, topics=[name], totalLag=1, partitionsWithLag=1)
    assert isinstance(queue.call("GET", "/consumer-groups/lagging?minLagSeconds=0"), list)
    assert name in queue.call("GET", f"/consumer-groups/{group}")
    for path, body in (
        (f"{group}/subscription", {"subscriptionTimestamp": "now"}),
        (f"{group}/queues/{name}/seek", {"toEnd": True}),
        (f"{group}/queues/{name}/partitions/Default/seek", {"timestamp": "2020-01-01T00:00:00Z"}),
    ):
        has(queue.call("POST", f"/consumer-groups/{path}", body), "success partitionsUpdated", success=True)
    for path in (f"{group}/queues/{name}", group, "nobody-knows-it"):
        queue.call("DELETE", f"/consumer-groups/{path}?deleteMetadata=true")
    has(queue.call("GET", "/status"), "throughput queues messages leases deadLetterQueue workers errors")
    for path in ("/status/queues", f"/status/queues/{name}", f"/status/queues/{name}/messages", "/status/analytics"):
        assert queue.call("GET", path)
    for path in ("/status/buffers", "/system/maintenance", "/system/maintenance/pop"):
        has(queue.call("GET", path), MODES, maintenanceMode=False, popMaintenanceMode=False)
    about = {"transactionId": "a", "partitionId": pushed["partition_id"], "data": {}, "traceNames": name}
    has(queue.call("POST", "/traces", about, status=201), "success traceId", success=True)
    assert queue.call("GET", f"/traces/{pushed['partition_id']}/a")["traces"]
    assert queue.call("GET", f"/traces/by-name/{name}")["traces"]
    [counted] = [each for each in queue.call("GET", "/traces/names")["names"] if each["trace_name"] == name]
    has(counted, "trace_name trace_count message_count last_seen", trace_count=1, message_count=1)
    for existed in (True, False):
        has(queue.call("DELETE", f"/resources/queues/{name}"), "", deleted=True, queue=name, existed=existed)


def test_stream_processors(queue: QueenCaller) -> None:
    name = queue.queue

    def call(path: str, body: Any, status: int = 200) -> Any:
        answered, answer = queue.broker.request("POST", f"/streams/v1{path}", body, timeout=60)
        assert answered == status, answer
        return answer

    query = {"name": f"q-{name}", "source_queue": name, "sink_queue": f"{name}-sink", "config_hash": "1"}
    known = call("/queries", query)
    has(known, "success query_id name config_hash fresh reset", success=True, fresh=True, reset=False)
    assert call("/queries", {**query, "config_hash": "2"}, 409)["success"] is False
    queue.push(1, ids=["a"])
    [message] = queue.popped(1, consumerGroup="g")
    place = {"query_id": known["query_id"], "partition_id": message["partitionId"]}
    cycle = call("/cycle", {
        **place,
        "consumer_group": "g",
        "state_ops": [{"type": "upsert", "key": "k", "value": {"windowEnd": 5}}],
        "push_items": [{"queue": f"{name}-sink", "payload": 2}],
        "ack": {"transactionId": "a", "leaseId": message["leaseId"], "status": "completed", "count": 1},
    })  # fmt: skip
    has(cycle, "query_id partition_id queueName push_results", success=True, state_ops_applied=1)
    has(cycle["ack_result"], "", success=True, count=1, lease_released=True, dlq=False)
    rows = call("/state/get", {**place, "keys": [], "ripe_at_or_before": 5})
    [row] = has(rows, "", success=True)["rows"]
    has(row, "updated_at", key="k", value={"windowEnd": 5})
    assert call("/state/get", {**place, "keys": ["nothing"]})["rows"] == []
    has(call("/queries", {**query, "config_hash": "2", "reset": True}), "", success=True, reset=True)
    assert call("/state/get", {**place, "key_prefix": "k"})["rows"] == []
