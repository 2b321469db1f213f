"""Clients that send or read slowly, and requests that never end: they hold what they have sent, not the broker."""

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.protocol.messages import Hello, Produce
from quiver.protocol.packet import encode_packet
from quiver.protocol.preface import PREFACE

MIB = 1024 * 1024
SMALL = {"messages": [{"value": "small"}]}


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for each in opened:
        each.close()


def start(start_broker: Callable[..., BrokerProcess], *args: str) -> BrokerProcess:
    broker = start_broker("--memory-budget", "16MiB", *args)
    broker.request("POST", "/topics", {"name": "t", "partitions": 1, "max_message_bytes": 12 * MIB})
    return broker


def begin_post(broker: BrokerProcess, declared: int, body: bytes, *headers: str) -> socket.socket:
    """A publish of which only a part is sent."""
    client = socket.create_connection(("127.0.0.1", broker.http_port), timeout=30)
    head = [
        "POST /topics/t/messages HTTP/1.1",
        f"Host: 127.0.0.1:{broker.http_port}",
        "Content-Type: application/json",
        f"Content-Length: {declared}",
        *headers,
    ]
    client.sendall("\r\n".join([*head, "", ""]).encode() + body)
    return client


def begin_produce(broker: BrokerProcess, declared: int, sent: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", broker.native_port), timeout=2)
    client.sendall(PREFACE + encode_packet(1, Hello([1], ["none"], ["arrow"])))
    with contextlib.suppress(TimeoutError):  # the broker reads no more when its memory is full
        client.sendall(encode_packet(2, Produce(1, 0, 0, 1), declared) + bytes(sent))
    return client


def read_all(client: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65536):
            data += piece
    return data


def test_bodies_that_trickle_starve_nobody_and_are_told_why_they_are_dropped(
    start_broker: Callable[..., BrokerProcess], sockets: list[socket.socket]
) -> None:
    broker = start(start_broker, "--slow-client-timeout", "1s")
    sockets += [begin_post(broker, 30 * MIB, b"{") for _ in range(8)]
    large = {"messages": [{"value": "x" * 10 * MIB}]}
    for body in (SMALL, large, SMALL):
        status, answer = broker.request("POST", "/topics/t/messages", body, timeout=30)
        assert (status, answer["results"][0].get("code")) == (200, None)
    done = threading.Event()

    def trickle() -> None:
        while not done.wait(0.1):
            for client in sockets:
                with contextlib.suppress(OSError):
                    client.sendall(b" ")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        for client in sockets:
            head, _, body = read_all(client).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408"), head
            answer = json.loads(body)
            assert (answer["code"], answer["retryable"]) == ("slow_client", True)
            assert "1024 bytes per second" in answer["error"]
    finally:
        done.set()
        thread.join()
    reason = "it sent a request more slowly than 1024 bytes per second"
    wait_until(lambda: reason in broker.log_text, 10, "the log says why")


def test_half_sent_requests_of_all_ports_share_one_budget_and_leave_room_for_small_ones(
    start_broker: Callable[..., BrokerProcess], sockets: list[socket.socket]
) -> None:
    broker = start(start_broker)
    before = broker.resident_bytes()
    for _ in range(6):
        sockets.append(begin_produce(broker, 30 * MIB, 8 * MIB))
        client = begin_post(broker, 30 * MIB, b"{")
        client.settimeout(0.5)
        sockets.append(client)
        with contextlib.suppress(TimeoutError, ConnectionError):
            client.sendall(b" " * 8 * MIB)
    for _ in range(5):
        status, answer = broker.request("POST", "/topics/t/messages", SMALL)
        assert (status, answer["results"][0].get("code")) == (200, None)
    with quiver.connect(broker.address) as q:
        assert q.publish("t", b"native").offset == 5
    assert broker.resident_bytes() - before < 70 * MIB, "96 MiB were sent"
    for each in sockets:
        each.close()
    with quiver.connect(broker.address) as q:
        assert q.publish("t", b"x" * 11 * MIB, timeout=30).offset == 6


def test_compressed_bodies_are_counted_by_what_comes_out_of_them(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start(start_broker)
    small = gzip.compress(json.dumps(SMALL).encode())
    bomb = gzip.compress(json.dumps({"messages": [], "padding": " " * 10 * MIB}).encode())
    seen: list[tuple[str, int, Any]] = []

    def publish(kind: str, body: bytes) -> None:
        for _ in range(4):
            client = begin_post(broker, len(body), body, "Content-Encoding: gzip", "Connection: close")
            with client:
                head, _, answer = read_all(client).partition(b"\r\n\r\n")
            seen.append((kind, int(head.split()[1]), json.loads(answer)))

    threads = [threading.Thread(target=publish, args=each) for each in [("small", small), ("bomb", bomb)] * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for kind, status, _ in seen if kind == "small"} == {200}
    refused = {(status, answer.get("code")) for kind, status, answer in seen if kind == "bomb" and status != 200}
    assert refused <= {(503, "overloaded")}
    assert len(seen) == 64


def test_readers_that_leave_large_pages_unread_starve_nobody(
    start_broker: Callable[..., BrokerProcess], sockets: list[socket.socket]
) -> None:
    broker = start(start_broker, "--slow-client-timeout", "1s")
    for _ in range(4):
        broker.request("POST", "/topics/t/messages", {"messages": [{"value": "x" * 2 * MIB}]}, timeout=30)
    for _ in range(8):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", broker.http_port))
        host = f"Host: 127.0.0.1:{broker.http_port}"
        client.sendall(f"GET /topics/t/messages?partition=0 HTTP/1.1\r\n{host}\r\n\r\n".encode())
        sockets.append(client)
    for _ in range(3):
        status, answer = broker.request("POST", "/topics/t/messages", SMALL)
        assert (status, answer["results"][0].get("code")) == (200, None)
        assert broker.request("GET", "/topics/t/messages?partition=0&offset=4")[0] == 200
    wait_until(lambda: "it took its response more slowly" in broker.log_text, 30, "a slow reader is dropped")
    page = wait_until(lambda: _page(broker), 30, "its memory is given back")
    assert len(page["messages"]) == 7


def _page(broker: BrokerProcess) -> Any:
    status, answer = broker.request("GET", "/topics/t/messages?partition=0", timeout=30)
    return answer if status == 200 else None
