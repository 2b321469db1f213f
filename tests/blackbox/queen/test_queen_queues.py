"""Queen's interface: push and pop, partitions, duplicates, what a request may look like."""

import gzip
import json
import threading
import urllib.request

import httpx
import msgspec
import pytest

from blackbox.callers.queen_caller import QueenCaller, data
from blackbox.processes.broker_process import BrokerProcess, free_port


@pytest.fixture
def queue(shared_broker: BrokerProcess) -> QueenCaller:
    return QueenCaller(shared_broker)


def test_configure_answers_with_all_options(queue: QueenCaller) -> None:
    answer = queue.configure(namespace="shop", task="orders", leaseTime=60, retryLimit=5)
    assert answer["configured"] is True
    assert (answer["queue"], answer["namespace"], answer["task"]) == (queue.queue, "shop", "orders")
    assert answer["options"] == {
        "leaseTime": 60,
        "maxSize": 0,
        "ttl": 3600,
        "retryLimit": 5,
        "retryDelay": 1000,
        "deadLetterQueue": False,
        "dlqAfterMaxRetries": False,
        "priority": 0,
        "delayedProcessing": 0,
        "windowBuffer": 0,
        "retentionSeconds": 0,
        "completedRetentionSeconds": 0,
        "retentionEnabled": False,
        "encryptionEnabled": False,
        "maxWaitTimeSeconds": 0,
        "dedupWindowSeconds": 3600,
    }
    again = queue.configure(leaseTime=30)
    assert (again["queueId"], again["options"]["retryLimit"]) == (answer["queueId"], 3)
    assert "encrypt" in queue.configure(encryptionEnabled=True, status=400)["error"]
    assert queue.configure(leaseTime=-1, status=400)
    queue.queue = "no name"
    assert "'no name'" in queue.configure(status=400)["error"]


def test_a_message_comes_as_it_was_pushed_and_leaves_with_its_ack(queue: QueenCaller) -> None:
    [result] = queue.push({"id": 1, "text": "żółw"}, partition="customer 7/ä", ids=["order-1"])
    assert result["status"] == "queued"
    assert (result["index"], result["transaction_id"], result["queueName"]) == (0, "order-1", queue.queue)
    popped = queue.pop(batch=10)
    [message] = popped["messages"]
    assert popped["success"] is True
    assert (popped["queue"], popped["partition"], popped["partitionsClaimed"]) == (queue.queue, "customer 7/ä", 1)
    assert (message["id"], message["partitionId"]) == (result["message_id"], result["partition_id"])
    assert (message["data"], message["transactionId"]) == ({"id": 1, "text": "żółw"}, "order-1")
    assert message["leaseId"] == popped["leaseId"] != ""
    assert message["createdAt"].endswith("Z")
    assert len(message["createdAt"]) == len("2025-01-01T00:00:00.000000Z")
    assert queue.pop() is None, "the partition is leased"
    assert queue.ack(message) == {
        "index": 0,
        "transactionId": "order-1",
        "success": True,
        "error": None,
        "queueName": queue.queue,
        "partitionName": "customer 7/ä",
        "leaseReleased": True,
        "dlq": False,
    }
    assert queue.pop() is None
    assert queue.ack(message)["success"] is True, "repeated"


@pytest.mark.parametrize("payload", [None, {}, [], "", 0, "text", 1.5, {"deep": [{"er": None}]}])
def test_payloads_come_back_as_they_were(queue: QueenCaller, payload: object) -> None:
    queue.push(payload)
    [message] = queue.popped()
    assert message["data"] == payload
    assert type(message["data"]) is type(payload)


def test_a_payload_that_is_left_out_is_null_and_a_large_one_comes_whole(queue: QueenCaller) -> None:
    queue.call("POST", "/push", {"items": [{"queue": queue.queue}]}, status=201)
    large = {"text": "x" * 2_500_000}
    queue.push(large, partition="large")
    assert data(queue.popped(partition="Default")) == [None]
    assert data(queue.popped(partition="large")) == [large]


def test_a_transaction_id_is_pushed_once_in_its_partition(queue: QueenCaller) -> None:
    first, second = queue.push("a", "b", ids=["t", "t"])
    assert (first["status"], second["status"]) == ("queued", "duplicate")
    assert second["message_id"] == first["message_id"]
    [elsewhere] = queue.push("c", partition="other", ids=["t"])
    assert elsewhere["status"] == "queued"
    [again] = queue.push("d", ids=["t"])
    assert (again["status"], again["message_id"]) == ("duplicate", first["message_id"])
    assert data(queue.popped(partition="Default")) == ["a"]


def test_ten_thousand_messages_come_in_order(queue: QueenCaller) -> None:
    for start in range(0, 10_000, 1000):
        queue.push(*range(start, start + 1000), partition="p")
    found: list[int] = []
    while len(found) < 10_000:
        messages = queue.popped(1000)
        found += data(messages)
        results = queue.ack_batch(*((message, "completed") for message in messages))
        assert all(result["success"] for result in results)
    assert found == list(range(10_000))
    assert queue.pop() is None


def test_several_partitions_are_claimed_in_one_pop_and_acked_apart(queue: QueenCaller) -> None:
    for name in ("a", "b", "c"):
        queue.push(f"{name}1", f"{name}2", partition=name)
    popped = queue.pop(batch=100, partitions=2)
    assert popped["partitionsClaimed"] == 2
    assert len({message["leaseId"] for message in popped["messages"]}) == 1
    last = {message["partition"]: message for message in popped["messages"]}
    first, second = sorted(last)
    assert sorted(data(popped["messages"])) == [f"{first}1", f"{first}2", f"{second}1", f"{second}2"]
    [third] = {"a", "b", "c"} - last.keys()
    assert data(queue.pop(batch=100, partitions=9)["messages"]) == [f"{third}1", f"{third}2"]
    assert queue.ack(last[first])["leaseReleased"] is True
    assert queue.ack(last[second], "retry")["leaseReleased"] is True
    assert data(queue.pop(batch=100, partitions=9)["messages"]) == [f"{second}1", f"{second}2"]


def test_what_is_acked_by_the_pop_is_not_leased(queue: QueenCaller) -> None:
    queue.push("a", "b")
    popped = queue.pop(batch=1, autoAck=True)
    assert popped["messages"][0]["leaseId"] == ""
    assert data(queue.pop(batch=9, autoAck=True)["messages"]) == ["b"]
    assert queue.pop() is None


def test_a_pop_that_waits_wakes_up_on_a_push_also_of_a_new_queue(queue: QueenCaller) -> None:
    for number in range(2):
        found: list[object] = []
        waiting = threading.Thread(target=lambda: found.extend(data(queue.popped())), daemon=True)  # noqa: B023
        waiting.start()
        queue.push(number, partition=str(number))
        waiting.join(30)
        assert found == [number]


def test_ten_workers_share_one_partition_in_order(queue: QueenCaller) -> None:
    queue.push(*range(200), partition="p")
    found: list[int] = []

    def work() -> None:
        while (popped := queue.pop(batch=7, wait=True, timeout=300)) is not None:
            found.extend(data(popped["messages"]))  # nobody else has the partition meanwhile
            queue.ack(popped["messages"][-1])

    workers = [threading.Thread(target=work, daemon=True) for _ in range(10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert found == list(range(200))


def test_bad_requests_say_what_is_wrong(queue: QueenCaller) -> None:
    assert queue.call("POST", "/push", {"items": []}, status=201) == []
    assert '"items"' in queue.call("POST", "/push", {}, status=400)["error"]
    item = {"queue": queue.queue, "payload": 1}
    for bad in ({"payload": 1}, {**item, "queue": 7}, {**item, "partition": 7}, {**item, "traceId": "no"}):
        assert queue.call("POST", "/push", {"items": [item, bad]}, status=400)
    assert queue.pop() is None, "nothing of a request that was refused is stored"
    assert queue.call("GET", f"/pop/queue/{queue.queue}?batch=0", status=400)
    assert queue.call("POST", "/ack", {"transactionId": "t"}, status=400)
    assert queue.call("GET", "/no/such/route", status=404)
    assert "__" in queue.call("POST", "/push", {"items": [{"queue": "__traces"}]}, status=400)["error"]


def test_messagepack_and_gzip(queue: QueenCaller) -> None:
    items = {"items": [{"queue": queue.queue, "payload": {"n": 1}, "transactionId": "t"}]}
    url = f"{queue.broker.http}/api/v1"
    packed = httpx.post(f"{url}/push/binary", content=msgspec.msgpack.encode(items))
    assert (packed.status_code, packed.json()[0]["status"]) == (201, "queued")
    zipped = httpx.post(
        f"{url}/push", content=gzip.compress(json.dumps(items).encode()), headers={"content-encoding": "gzip"}
    )
    assert zipped.json()[0]["status"] == "duplicate"
    answer = httpx.get(f"{url}/pop/queue/{queue.queue}", headers={"accept": "application/msgpack"})
    assert msgspec.msgpack.decode(answer.content)["messages"][0]["data"] == {"n": 1}


def test_a_port_of_its_own(start_broker) -> None:
    port = free_port()
    broker = start_broker("--queen-port", str(port))
    QueenCaller(broker, "orders").push(1)
    url = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{url}/health") as answer:
        health = json.loads(answer.read())
    assert health["status"] == "healthy"
    with urllib.request.urlopen(f"{url}/api/v1/pop/queue/orders") as answer:
        assert json.loads(answer.read())["messages"][0]["data"] == 1
    with urllib.request.urlopen(f"{url}/metrics/prometheus") as answer:
        assert b'"queen"' in answer.read()
    assert httpx.get(f"{url}/topics").status_code == 404


def test_pages_of_an_origin_that_was_named_may_use_the_port(start_broker) -> None:
    port = free_port()
    broker = start_broker("--queen-port", str(port), "--queen-origin", "https://queue.example.com")
    page = {"origin": "https://queue.example.com", "sec-fetch-site": "cross-site"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    push = {"items": [{"queue": "orders", "payload": 1}]}
    url = f"http://127.0.0.1:{port}/api/v1/push"
    preflight = httpx.options(url, headers={**page, **asked})
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    pushed, failed = httpx.post(url, json=push, headers=page), httpx.post(url, json={}, headers=page)
    assert (pushed.status_code, failed.status_code) == (201, 400)
    for answer in (preflight, pushed, failed):
        assert answer.headers["access-control-allow-origin"] == "https://queue.example.com"
    for stranger in ({**page, "origin": "https://other.example.com"}, {"sec-fetch-site": "cross-site"}):
        refused = httpx.post(url, json=push, headers=stranger)
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
    assert httpx.options(url, headers={"origin": "https://other.example.com", **asked}).status_code == 403
    assert httpx.post(f"{broker.http}/api/v1/push", json=push, headers=page).status_code == 403, "only that port"
