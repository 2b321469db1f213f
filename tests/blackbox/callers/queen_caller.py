"""A client of Queen's interface, for tests: it sends what Queen's own clients send."""

import itertools
from typing import Any
from urllib.parse import quote

from blackbox.processes.broker_process import BrokerProcess

_numbers = itertools.count()


class QueenCaller:
    """A queue with a name of its own."""

    def __init__(self, broker: BrokerProcess, queue: str | None = None) -> None:
        self.broker = broker
        self.queue = queue or f"queen-{next(_numbers)}"

    def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answered, answer = self.broker.request(method, "/api/v1" + path, body, timeout=60)
        assert answered == status, (method, path, str(body)[:500], answered, str(answer)[:1000])
        if status >= 400:
            assert isinstance(answer["error"], str)
        return answer

    def configure(self, *, namespace: str = "", task: str = "", status: int = 200, **options: Any) -> Any:
        body = {"queue": self.queue, "namespace": namespace, "task": task, "options": options}
        return self.call("POST", "/configure", body, status=status)

    def push(self, *payloads: Any, partition: str | None = None, ids: list[str] | None = None) -> list[Any]:
        """The results, in the order of the payloads."""
        items: list[dict[str, Any]] = [{"queue": self.queue, "payload": payload} for payload in payloads]
        for item, id in zip(items, ids or [], strict=False):
            item["transactionId"] = id
        if partition is not None:
            items = [{**item, "partition": partition} for item in items]
        return list(self.call("POST", "/push", {"items": items}, status=201))

    def pop(self, *, partition: str | None = None, **query: Any) -> Any:
        """The response; None when there is nothing."""
        path = f"/pop/queue/{quote(self.queue)}" + (f"/partition/{quote(partition, safe='')}" if partition else "")
        words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
        text = "&".join(f"{name}={quote(str(value))}" for name, value in words.items())
        status, answer = self.broker.request("GET", f"/api/v1{path}?{text}", timeout=60)
        assert (status, answer is None) in ((200, False), (204, True)), (status, answer)
        return answer

    def popped(self, count: int = 1, **query: Any) -> list[Any]:
        """This many messages, waiting for them."""
        answer = self.pop(batch=count, wait=True, timeout=20_000, **query)
        assert answer is not None, "nothing came"
        messages = answer["messages"]
        assert len(messages) == count, [message["data"] for message in messages]
        return list(messages)

    def ack(self, message: Any, status: str = "completed", **more: Any) -> Any:
        """The result of the one message."""
        [result] = self.call("POST", "/ack", {**named(message), "status": status, **more})
        return result

    def ack_batch(self, *acks: tuple[Any, str], group: str | None = None) -> list[Any]:
        body: dict[str, Any] = {"acknowledgments": [{**named(message), "status": status} for message, status in acks]}
        if group is not None:
            body["consumerGroup"] = group
        return list(self.call("POST", "/ack/batch", body))

    def dead(self, **query: Any) -> list[Any]:
        text = "&".join(f"{name}={quote(str(value))}" for name, value in {"queue": self.queue, **query}.items())
        return list(self.call("GET", f"/dlq?{text}")["messages"])


def named(message: Any) -> dict[str, Any]:
    named = {name: message[name] for name in ("transactionId", "partitionId")}
    if message.get("leaseId"):
        named["leaseId"] = message["leaseId"]
    if message.get("consumerGroup"):
        named["consumerGroup"] = message["consumerGroup"]
    return named


def data(messages: list[Any]) -> list[Any]:
    return [message["data"] for message in messages]
