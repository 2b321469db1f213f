"""A broker with messages of every kind, at rest: stored, leased, retrying, dead, delayed and undecided ones."""

from typing import Any

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess

LONG = "10m"
KEYS = ["a", "b"]


class BusyBroker:
    """What was done to the broker, for those who want to go on from there."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.queue = HttpQueue(broker, partitions=1, visibility=LONG, backoff=LONG, backoff_max=LONG)
        self.topic = self.queue.topic
        self.queue.publish(*(f"m{number}" for number in range(8)))
        self.queue.publish("k0", "k1", key=KEYS[0])
        self.queue.publish("k2", key=KEYS[1], priority="high", id="the-id")
        self._hold_in_workers()
        self._hold_in_lanes()
        self._poll()
        self._read_as_stream()
        self._delay()
        self._begin_transactions()
        self.schedule = "yearly"
        body = {"name": self.schedule, "cron": "0 0 1 1 *", "topic": self.topic, "value": "happy new year"}
        status, _ = broker.request("POST", "/schedules", body)
        assert status < 300

    def _hold_in_workers(self) -> None:
        """Acked m0, rejected m1, given back m2, leased m3; the rest is ready, k2 (high) was acked first."""
        self.queue.settle("ack", self.queue.receive_one(priority="high"))
        acked, dead, retrying, self.leased = self.queue.receive_all(4)
        self.queue.settle("ack", acked)
        self.queue.settle("reject", dead, reason="never")
        self.queue.settle("nack", retrying, delay=LONG, reason="not now")
        self.queue.dead_letters(1)

    def _hold_in_lanes(self) -> None:
        """Every message is given to somebody, none is settled; of key a the first blocks the second."""
        self.in_lanes = self.queue.receive("lanes", ordering="key", max_messages=1, priority="high")
        self.in_lanes += self.queue.receive("lanes", ordering="key", max_messages=4)

    def _poll(self) -> None:
        """A member has m0 to m3 and has acked m0 and m2."""
        body = {"client_id": "poller", "topics": [self.topic], "session_timeout": LONG}
        self.member = self.queue.call("POST", "/groups/pollers/join", body)["member_id"]
        self.polled = self.poll(4)
        for message in self.polled[0], self.polled[2]:
            self.queue.settle("ack", message)

    def poll(self, count: int) -> list[dict[str, Any]]:
        path = f"/groups/pollers/poll?member_id={self.member}&timeout=2s&max_messages={count}"
        return list(self.queue.call("GET", path)["messages"])

    def _read_as_stream(self) -> None:
        """Two messages are committed by a member that has left."""
        with (
            quiver.connect(self.broker.address) as q,
            q.stream(self.topic, group="readers", auto_commit=False) as stream,
        ):
            messages = iter(stream)
            next(messages)
            next(messages)
            stream.commit()

    def _delay(self) -> None:
        self.delayed = [result["offset"] for result in self.queue.publish("d0", "d1", delay="1h")]
        self.queue.call("DELETE", f"/topics/{self.topic}/delayed/0/{self.delayed[1]}")

    def _begin_transactions(self) -> None:
        """One is committed, one aborted, one is open; they write to a topic of their own, as readers wait there."""
        self.tables = HttpQueue(self.broker, partitions=1)
        for end in ("commit", "abort", None):
            wanted = {"transactional_id": f"tx-{end}", "transaction_timeout_ms": 600_000}
            self.producer = self.queue.call("POST", "/producers/init", wanted)
            body = {**self.producer, "topic": self.tables.topic, "value": f"to {end}"}
            self.queue.call("POST", "/transactions/publish", body)
            if end is not None:
                self.queue.call("POST", f"/transactions/{end}", self.producer)
