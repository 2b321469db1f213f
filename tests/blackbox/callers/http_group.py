"""One group over HTTP, for tests: every request is checked to have the status that was expected."""

import itertools
from typing import Any

from blackbox.processes.broker_process import BrokerProcess

_numbers = itertools.count()


class HttpGroup:
    """A group with a name of its own, on a topic with a name of its own."""

    def __init__(self, broker: BrokerProcess, *, partitions: int = 4, topic: str | None = None) -> None:
        number = next(_numbers)
        self.broker = broker
        self.name = f"group-{number}"
        self.topic = topic or f"topic-{number}"
        if topic is None:
            self.call("POST", "/topics", {"name": self.topic, "partitions": partitions}, status=201)

    def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answered, answer = self.broker.request(method, path, body, timeout=60)
        assert answered == status, (method, path, body, answered, answer)
        if status >= 400:
            assert answer["status"] == status
            assert answer["error"]
        return answer

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        return self.call("POST", f"/groups/{self.name}/{path}", body, status=status)

    def get(self, path: str = "", *, status: int = 200) -> Any:
        return self.call("GET", f"/groups/{self.name}{path}", status=status)

    def join(self, *, cooperative: bool = False, status: int = 200, **fields: Any) -> Any:
        body = {"client_id": "app", "topics": [self.topic], **fields}
        return self.post("join/cooperative" if cooperative else "join", body, status=status)

    def beat(self, member: Any, *, cooperative: bool = False, status: int = 200, **fields: Any) -> Any:
        body = {"member_id": member["member_id"], **fields}
        return self.post("heartbeat/cooperative" if cooperative else "heartbeat", body, status=status)

    def poll(self, member: Any, *, status: int = 200, **query: Any) -> Any:
        fields = {"member_id": member["member_id"], "timeout": "0s", **query}
        given = [f"{name}={value}" for name, value in fields.items() if value is not None]
        return self.get("/poll?" + "&".join(given), status=status)

    def commit(self, member: Any, offsets: dict[int, int], *, status: int = 200, **fields: Any) -> Any:
        named = {self.topic: {str(partition): offset for partition, offset in offsets.items()}}
        return self.post("offsets", {"member_id": member["member_id"], "offsets": named, **fields}, status=status)

    def committed(self) -> dict[str, int]:
        answer = self.get(f"/offsets?topic={self.topic}")
        assert answer["offsets"] == answer["topics"]
        return dict(answer["offsets"][self.topic])

    def publish(self, count: int = 1, *, partition: int = 0, value: str = "v") -> None:
        messages = [{"value": f"{value}{number}", "partition": partition} for number in range(count)]
        self.call("POST", f"/topics/{self.topic}/messages", {"messages": messages})

    def fill(self, count: int, partitions: int = 4) -> None:
        for partition in range(partitions):
            self.publish(count, partition=partition, value=f"{partition}:")

    def assigned(self, member: Any) -> list[int]:
        parts = self.get(f"/assignment?member_id={member['member_id']}")["partitions"]
        assert all(part["topic"] == self.topic for part in parts)
        return [part["partition"] for part in parts]


def values(polled: Any) -> list[str]:
    """Of a poll in either shape, in order."""
    messages = polled["messages"]
    flat = messages if isinstance(messages, list) else [one for part in messages.values() for one in part]
    return [message["value"] for message in flat]
