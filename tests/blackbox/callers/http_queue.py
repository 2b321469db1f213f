"""One topic used as a queue over HTTP, for tests: every request is checked to have the status that was expected."""

import itertools
from typing import Any

from blackbox.processes.broker_process import BrokerProcess, wait_until

_numbers = itertools.count()
SECONDS = 30.0


class HttpQueue:
    """A topic with a name of its own. `settings` are the topic's: partitions, visibility, max_attempts ..."""

    def __init__(self, broker: BrokerProcess, *, partitions: int = 1, **settings: Any) -> None:
        self.broker = broker
        self.topic = f"work-{next(_numbers)}"
        body = {"name": self.topic, "partitions": partitions, **settings}
        self.call("POST", "/topics", body, status=201)

    def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answered, answer = self.broker.request(method, path, body, timeout=60)
        assert answered == status, (method, path, body, answered, answer)
        if status >= 400:
            assert answer["status"] == status
            assert answer["error"]
        return answer

    def publish(self, *values: str, **fields: Any) -> list[dict[str, Any]]:
        """Messages with these values and all of them with these fields; the results, none of which is an error."""
        return self.publish_messages([{"value": value, **fields} for value in values])

    def publish_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        results = self.call("POST", f"/topics/{self.topic}/messages", {"messages": messages})["results"]
        assert not [result for result in results if "error" in result], results
        return list(results)

    def receive(self, group: str = "workers", *, status: int = 200, **fields: Any) -> Any:
        """The messages, or the error."""
        body = {"group": group, "consumer": "one", **fields}
        answer = self.call("POST", f"/topics/{self.topic}/receive", body, status=status)
        return answer["messages"] if status == 200 else answer

    def receive_one(self, group: str = "workers", **fields: Any) -> dict[str, Any]:
        """The next message, waiting for it."""
        messages = self.receive(group, **{"max_messages": 1, "wait": "20s", **fields})
        assert len(messages) == 1, "nothing came"
        return dict(messages[0])

    def receive_all(self, count: int, group: str = "workers", **fields: Any) -> list[dict[str, Any]]:
        """This many messages, in as many receives as it takes."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            messages = self.receive(group, **{"max_messages": count - len(found), "wait": "20s", **fields})
            assert messages, f"{len(found)} of {count} messages came"
            found += messages
        return found

    def settle(self, verb: str, message: Any, *, status: int = 200, **fields: Any) -> Any:
        """A message that was received, or a receipt."""
        receipt = message["receipt_handle"] if isinstance(message, dict) else message
        return self.call("POST", f"/messages/{verb}", {"receipt_handle": receipt, **fields}, status=status)

    def settle_many(self, verb: str, messages: Any, **fields: Any) -> list[dict[str, Any]]:
        """One result for each message or receipt."""
        receipts = [one["receipt_handle"] if isinstance(one, dict) else one for one in messages]
        results = self.call("POST", f"/messages/{verb}", {"receipts": receipts, **fields})["results"]
        assert [result["receipt_handle"] for result in results] == receipts
        return list(results)

    def depth(self, group: str = "workers") -> Any:
        return self.call("GET", f"/topics/{self.topic}/queues/{group}")

    def wait_for_depth(self, group: str = "workers", **wanted: int) -> None:
        """Until the group's depth has these values."""
        wait_until(lambda: wanted.items() <= self.depth(group).items(), SECONDS, f"{wanted} of {group}")

    def set_group(self, group: str, **settings: Any) -> None:
        self.call("PATCH", f"/groups/{group}", settings)

    def dead_letters(self, count: int | None = None) -> list[dict[str, Any]]:
        """All of them; waits until there are `count`."""
        path = f"/topics/{self.topic}/dlq"
        if count is not None:
            wait_until(lambda: len(self.call("GET", path)["messages"]) >= count, SECONDS, f"{count} dead letters")
        return list(self.call("GET", path)["messages"])


def values(messages: list[dict[str, Any]]) -> list[str]:
    return [message["value"] for message in messages]
