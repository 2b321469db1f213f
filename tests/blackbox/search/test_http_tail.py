"""The live tail through the shipped program."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

import quiver
from blackbox.callers.new_topic import new_topic
from blackbox.processes.broker_process import BrokerProcess


class Tail:
    def __init__(self, port: int, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request("GET", path, headers={"accept-encoding": "gzip, zstd"})
        self._response = self._connection.getresponse()
        assert self._response.status == 200, self._response.read()
        assert self._response.headers["content-encoding"] is None
        assert "heartbeat" in self.line(), "now it has begun"

    def line(self) -> dict[str, Any]:
        return json.loads(self._response.readline())

    def news(self) -> dict[str, Any]:
        while "heartbeat" in (line := self.line()):
            pass
        return line

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def topic(q: quiver.Client) -> str:
    return new_topic(q, partitions=2, durability="interval")


@pytest.fixture
def tails() -> Iterator[list[Tail]]:
    found: list[Tail] = []
    yield found
    for tail in found:
        tail.close()


def test_messages_come_as_lines(
    shared_broker: BrokerProcess, q: quiver.Client, topic: str, tails: list[Tail]
) -> None:
    q.publish(topic, {"n": 0}, partition=0)
    tails.append(Tail(shared_broker.http_port, f"/topics/{topic}/tail"))
    tails.append(Tail(shared_broker.http_port, f"/topics/{topic}/tail?where=value.n%20%3E%202&partition=0"))
    for n in range(1, 5):
        q.publish(topic, {"n": n}, key="k", headers={"h": "<script>"}, partition=0)
    shown = [tails[0].news() for _ in range(4)]
    assert [line["offset"] for line in shown] == [1, 2, 3, 4]
    assert (shown[0]["key"], shown[0]["headers"], shown[0]["partition"]) == ("k", {"h": "<script>"}, 0)
    assert [tails[1].news()["offset"] for _ in range(2)] == [3, 4]


def test_a_busy_topic_is_shown_at_its_rate_and_the_rest_is_counted(
    shared_broker: BrokerProcess, q: quiver.Client, topic: str, tails: list[Tail]
) -> None:
    tails.append(Tail(shared_broker.http_port, f"/topics/{topic}/tail?rate=10&partition=1"))
    with q.producer(topic) as producer:
        for n in range(20_000):
            producer.send({"n": n}, partition=1)
    seen = dropped = 0
    while seen + dropped < 20_000:
        line = tails[0].news()
        dropped += line.get("dropped", 0)
        seen += "offset" in line
    assert seen + dropped == 20_000
    assert dropped > 19_000


def test_its_end_is_said(shared_broker: BrokerProcess, q: quiver.Client, topic: str, tails: list[Tail]) -> None:
    tails.append(Tail(shared_broker.http_port, f"/topics/{topic}/tail"))
    q.topics.delete(topic)
    line = tails[0].news()
    assert (line["code"], topic in line["error"]) == ("topic_not_found", True)
    status, answer = shared_broker.request("GET", f"/topics/{topic}/tail")
    assert (status, answer["code"]) == (404, "topic_not_found")


def test_what_is_wrong_is_said(shared_broker: BrokerProcess, topic: str) -> None:
    for query, said in (("where=valu", "there is no 'valu'"), ("rate=0", "rate"), ("partition=7", "no partition 7")):
        status, answer = shared_broker.request("GET", f"/topics/{topic}/tail?{query}")
        assert status in (400, 404)
        assert said in answer["error"]
