"""The broker at a glance, as a page and as a stream, over HTTP."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess, wait_until

SECONDS = 30.0


def overview(broker: BrokerProcess) -> dict[str, Any]:
    status, answer = broker.request("GET", "/overview")
    assert status == 200
    return dict(answer)


def lines(connection: HTTPConnection) -> Iterator[dict[str, Any]]:
    connection.request("GET", "/overview/stream", headers={"accept-encoding": "gzip"})
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-encoding"] is None, "a line that a compressor holds back is late"
    while line := answer.readline():
        yield json.loads(line)


def test_what_happens_in_the_broker_is_seen(shared_broker: BrokerProcess) -> None:
    before = overview(shared_broker)
    assert before["is_ready"] is True
    assert before["problems"] == []
    queue = HttpQueue(shared_broker)
    queue.publish(*"abcdef")
    queue.publish("later", delay="1h")
    first, second, *_ = queue.receive(max_messages=4)
    queue.call("POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]})
    queue.call("POST", "/messages/reject", {"receipt_handle": second["receipt_handle"], "reason": "no"})

    def seen() -> dict[str, Any] | None:
        now = overview(shared_broker)
        history = now["history"]
        moved = all(any(history[name]) for name in ("published_messages", "delivered", "acked", "dead"))
        return now if moved and now["dead_letters"] > before["dead_letters"] and now["delayed"] else None

    now = wait_until(seen, SECONDS, "rates and backlog")
    assert now["topics"] > before["topics"]
    assert now["groups"] >= 1
    assert now["lag_messages"] >= 2
    assert max(now["history"]["publish_p99_ms"]) > 0
    assert now["disk"]["total_bytes"] > now["disk"]["free_bytes"] > 0 < now["disk"]["log_bytes"]
    assert now["memory_bytes"] > 10_000_000
    assert len({len(column) for column in now["history"].values()}) == 1


def test_the_stream_begins_with_the_history_and_goes_on_without(shared_broker: BrokerProcess) -> None:
    with closing(HTTPConnection("127.0.0.1", shared_broker.http_port, timeout=SECONDS)) as connection:
        stream = lines(connection)
        first, second = next(stream), next(stream)
        assert first["history"]["seconds"]
        assert first.keys() - second.keys() == {"history"}
        assert second["time"] > first["time"]
        assert second["connections"] >= 1
        queue = HttpQueue(shared_broker)
        queue.publish(*"abc")
        busy = next(line for line in stream if line["rates"]["published_messages"])
        assert queue.topic in [each["topic"] for each in busy["top_topics"]]


@pytest.mark.parametrize(("count", "path"), [(1_000, "/overview/stream"), (20, "/topics/looked-at/tail?rate=10000")])
def test_clients_that_stop_reading_disturb_nobody(shared_broker: BrokerProcess, count: int, path: str) -> None:
    shared_broker.request("POST", "/topics", {"name": "looked-at", "exist_ok": True})
    stuck = []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        sock.connect(("127.0.0.1", shared_broker.http_port))
        sock.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        stuck.append(sock)
    messages = [{"value": "x" * 10_000}] * 500
    assert shared_broker.request("POST", "/topics/looked-at/messages", {"messages": messages})[0] == 200
    with closing(HTTPConnection("127.0.0.1", shared_broker.http_port, timeout=SECONDS)) as connection:
        stream = lines(connection)
        assert len({next(stream)["time"] for _ in range(3)}) == 3
    for sock in stuck:
        sock.close()


def test_the_stream_ends_with_the_broker(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    ended = threading.Event()
    with closing(HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS)) as connection:
        stream = lines(connection)
        next(stream)

        def read_to_the_end() -> None:
            for _ in stream:
                pass
            ended.set()

        reader = threading.Thread(target=read_to_the_end)
        reader.start()
        assert broker.terminate() == 0
        reader.join(SECONDS)
        assert ended.is_set(), "the stream broke off"


def test_topics_with_details(shared_broker: BrokerProcess, q: quiver.Client) -> None:
    for name in ("shop.orders", "shop.emails", "shop.__no"):
        q.topics.create(name, partitions=2, retention="2h", exist_ok=True)
    q.publish("shop.orders", b"v")
    for message in q.stream("shop.orders", group="billing"):
        message.commit()
        break

    def page(query: str) -> dict[str, Any]:
        status, answer = shared_broker.request("GET", f"/topics?details=true&search=SHOP.&{query}")
        assert status == 200
        return dict(answer)

    first = page("limit=2")
    assert [topic["name"] for topic in first["topics"]] == ["shop.__no", "shop.emails"]
    assert first["count"] == 3
    rest = page(f"limit=2&cursor={first['next_cursor']}")
    [orders] = rest["topics"]
    assert "next_cursor" not in rest
    rates = {orders.pop(name) >= 0 for name in ("published_per_second", "read_per_second")}
    assert rates == {True}
    assert orders.pop("size_bytes") > 0
    assert orders == {
        "name": "shop.orders",
        "partitions": 2,
        "messages": 1,
        "groups": 1,
        "retention": "2h",
        "is_internal": False,
    }
