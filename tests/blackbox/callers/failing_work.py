"""A queue whose messages fail, over HTTP: publish, receive, give up, and look at the dead letters."""

from typing import Any
from urllib.parse import urlencode

from blackbox.processes.broker_process import BrokerProcess, wait_until

_SECONDS = 30.0


class FailingWork:
    """One topic of a broker, and its dead letters. The topic is made with the settings given, unless it exists."""

    def __init__(self, broker: BrokerProcess, topic: str, *, exists: bool = False, **settings: Any) -> None:
        self.broker, self.topic = broker, topic
        if not exists:
            self.ask("POST", "/topics", {"name": topic, **settings}, status=201)

    def ask(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The answer to a request, whose status is checked."""
        found, answer = self.broker.request(method, path, body, timeout=_SECONDS)
        assert found == status, answer
        return answer

    def publish(self, *values: str, **fields: Any) -> list[dict[str, Any]]:
        messages = [{"value": value, **fields} for value in values]
        results = self.ask("POST", f"/topics/{self.topic}/messages", {"messages": messages})["results"]
        assert not any("error" in result for result in results)
        return list(results)

    def receive(self, count: int, group: str = "workers", **fields: Any) -> list[dict[str, Any]]:
        """Exactly so many messages, in as many calls as it takes."""
        messages: list[dict[str, Any]] = []
        while len(messages) < count:
            found = self.receive_some(count - len(messages), group, **{"wait": "20s", **fields})
            assert found, f"{len(messages)} of {count} messages came"
            messages += found
        return messages

    def receive_some(self, count: int, group: str = "workers", **fields: Any) -> list[dict[str, Any]]:
        """What one call gives."""
        body = {"group": group, "max_messages": count, "wait": "1s", **fields}
        return list(self.ask("POST", f"/topics/{self.topic}/receive", body)["messages"])

    def settle(self, action: str, messages: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
        body = {"receipts": [message["receipt_handle"] for message in messages], **fields}
        results = self.ask("POST", f"/messages/{action}", body)["results"]
        assert all(result["success"] for result in results), results
        return list(results)

    def kill_off(self, *values: str, group: str = "workers", reason: str = "no good", **fields: Any) -> None:
        """Publishes messages and rejects them."""
        self.publish(*values, **fields)
        self.settle("reject", self.receive(len(values), group), reason=reason)

    def dead_letters(self, **query: Any) -> dict[str, Any]:
        """One page."""
        answer = self.ask("GET", f"/topics/{self.topic}/dlq?{urlencode(query)}")
        assert answer["count"] == len(answer["messages"])
        return dict(answer)

    def all_dead_letters(self, **query: Any) -> list[dict[str, Any]]:
        """Page by page."""
        page = self.dead_letters(**query)
        found = list(page["messages"])
        while page["next"] is not None:
            page = self.dead_letters(**query, after=page["next"])
            found += page["messages"]
        return found

    def values(self, **query: Any) -> list[str]:
        return [dead_letter["value"] for dead_letter in self.all_dead_letters(**query)]

    def wait_for_dead_letters(self, count: int) -> list[dict[str, Any]]:
        """All dead letters, once there are at least so many: those that are on their way arrive by themselves."""
        wait_until(lambda: self.dead_letters(limit=1)["total"] >= count, _SECONDS, f"{count} dead letters")
        return self.all_dead_letters()

    def redrive(self, **body: Any) -> dict[str, Any]:
        return dict(self.ask("POST", f"/topics/{self.topic}/dlq/redrive", body))

    def purge(self, **body: Any) -> dict[str, Any]:
        return dict(self.ask("POST", f"/topics/{self.topic}/dlq/purge", body))

    def stored(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Every message in the log of a topic, partition by partition."""
        topic = topic or self.topic
        count = self.ask("GET", f"/topics/{topic}")["partitions"]
        paths = [f"/topics/{topic}/partitions/{number}/messages?limit=10000" for number in range(count)]
        return [message for path in paths for message in self.ask("GET", path)["messages"]]
