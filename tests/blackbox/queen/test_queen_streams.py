"""Queen's interface: cycles of stream processors change state, push and acknowledge together or not at all."""

from typing import Any

import pytest

from blackbox.callers.queen_caller import QueenCaller, data
from blackbox.processes.broker_process import BrokerProcess


class Processor:
    """A stream processor that reads a queue."""

    def __init__(self, source: QueenCaller, sink: QueenCaller) -> None:
        self.source = source
        self.sink = sink
        self.name = f"sums of {source.queue}"
        self.query_id = self.register("1")["query_id"]

    def call(self, path: str, body: Any, status: int = 200) -> Any:
        answered, answer = self.source.broker.request("POST", f"/streams/v1{path}", body, timeout=60)
        assert answered == status, (path, body, answered, answer)
        return answer

    def register(self, config_hash: str, *, status: int = 200, **more: Any) -> Any:
        body = {"name": self.name, "source_queue": self.source.queue, "sink_queue": self.sink.queue}
        return self.call("/queries", {**body, "config_hash": config_hash, **more}, status)

    def pop(self, count: int = 1) -> list[Any]:
        return self.source.popped(count, consumerGroup="streams")

    def cycle(self, message: Any, state: dict[str, Any], *emitted: Any, **more: Any) -> Any:
        changes = [
            {"type": "delete", "key": key} if value is None else {"type": "upsert", "key": key, "value": value}
            for key, value in state.items()
        ]
        ack = {"transactionId": message["transactionId"], "leaseId": message["leaseId"], "status": "completed"}
        body = {
            "query_id": self.query_id,
            "partition_id": message["partitionId"],
            "consumer_group": "streams",
            "state_ops": changes,
            "push_items": [{"queue": self.sink.queue, "payload": each} for each in emitted],
            "ack": ack,
        }
        return self.call("/cycle", {**body, **more})

    def state(self, message: Any, **more: Any) -> dict[str, Any]:
        body = {"query_id": self.query_id, "partition_id": message["partitionId"], "keys": []}
        answer = self.call("/state/get", {**body, **more})
        assert answer["success"] is True
        return {row["key"]: row["value"] for row in answer["rows"]}


@pytest.fixture
def processor(shared_broker: BrokerProcess) -> Processor:
    return Processor(QueenCaller(shared_broker), QueenCaller(shared_broker))


def test_a_cycle_changes_state_pushes_and_acknowledges(processor: Processor) -> None:
    processor.source.push(1, 2, 3)
    messages = processor.pop(3)
    assert processor.state(messages[0]) == {}
    done = processor.cycle(messages[1], {"sum": 3, "w1": {"windowEnd": 100}}, {"sum": 3}, "second")
    assert (done["success"], done["state_ops_applied"], done["queueName"]) == (True, 2, processor.source.queue)
    assert done["ack_result"] == {"success": True, "count": 2, "lease_released": True, "dlq": False}
    assert [each["status"] for each in done["push_results"]] == ["queued", "queued"]
    assert data(processor.sink.popped(2)) == [{"sum": 3}, "second"]
    assert processor.state(messages[0]) == {"sum": 3, "w1": {"windowEnd": 100}}
    assert processor.state(messages[0], keys=["sum", "none"]) == {"sum": 3}
    assert processor.state(messages[0], key_prefix="w") == {"w1": {"windowEnd": 100}}
    assert processor.state(messages[0], ripe_at_or_before=100) == {"w1": {"windowEnd": 100}}
    assert processor.state(messages[0], ripe_at_or_before=99) == {}
    [last] = processor.pop()
    assert last["data"] == 3
    kept = processor.cycle(last, {"w1": None}, release_lease=False)
    assert kept["success"] is True
    assert processor.state(last) == {"sum": 3}
    assert processor.state({"partitionId": "1-AAAA"}) == {}


def test_a_cycle_whose_lease_is_lost_changes_nothing(processor: Processor) -> None:
    processor.source.push(1, 2)
    messages = processor.pop(2)
    assert processor.cycle(messages[0], {"n": 1}, release_lease=False)["ack_result"]["lease_released"] is False
    processor.source.ack(messages[1], "retry")
    failed = processor.cycle(messages[1], {"n": 2, "m": 1}, "emitted")
    assert (failed["success"], failed["error"]) == (False, "Invalid or expired lease")
    assert processor.state(messages[0]) == {"n": 1}
    assert processor.sink.pop() is None
    assert data(processor.pop()) == [2]


def test_a_query_is_registered_once_and_reset_without_its_state(processor: Processor) -> None:
    again = processor.register("1")
    assert (again["query_id"], again["fresh"], again["reset"]) == (processor.query_id, False, False)
    refused = processor.register("2", status=409)
    assert refused["success"] is False
    processor.source.push(1)
    [message] = processor.pop()
    processor.cycle(message, {"a": 1, "b": None})
    assert processor.state(message) == {"a": 1}
    reset = processor.register("2", reset=True)
    assert (reset["query_id"], reset["reset"]) == (processor.query_id, True)
    assert processor.state(message) == {}
    place = {"query_id": processor.query_id, "partition_id": message["partitionId"]}
    for path, bad in (
        ("/queries", {"name": "x"}),
        ("/cycle", {"query_id": "nobody", "partition_id": "1-AA"}),
        ("/cycle", {**place, "state_ops": [{"type": "add", "key": "a"}]}),
        ("/cycle", {**place, "push_items": [{"payload": 1}]}),
        ("/state/get", {"query_id": processor.query_id}),
    ):
        processor.call(path, bad, 400)


def test_state_survives_a_kill(broker: BrokerProcess) -> None:
    processor = Processor(QueenCaller(broker, "in"), QueenCaller(broker, "out"))
    processor.source.push(*range(5))
    total = 0
    for _ in range(5):
        [message] = processor.pop()
        total = processor.state(message).get("total", 0) + message["data"]
        assert processor.cycle(message, {"total": total}, total)["success"] is True
        if message["data"] == 2:
            broker.restart(kill=True)
    assert total == 10
    assert data(processor.sink.popped(5)) == [0, 1, 3, 6, 10]
