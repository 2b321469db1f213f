"""HTTP on the wire, through the shipped program: requests that come in pieces, together, and broken off."""

import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pytest

import quiver
from blackbox.callers.http_caller import HttpCaller
from blackbox.processes.broker_process import BrokerProcess

_names = (f"wire-{number}" for number in itertools.count())


@pytest.fixture
def topic(q: quiver.Client) -> str:
    name = next(_names)
    q.topics.create(name, partitions=1)
    return name


@contextmanager
def connection(broker: BrokerProcess) -> Iterator[tuple[socket.socket, BinaryIO]]:
    with socket.create_connection(("127.0.0.1", broker.http_port), timeout=60) as sock, sock.makefile("rb") as stream:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock, stream


def publish(topic: str, value: str, *headers: str) -> bytes:
    body = json.dumps({"messages": [{"value": value}]}).encode()
    lines = [f"POST /topics/{topic}/messages HTTP/1.1", "host: localhost", *headers]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def response(stream: BinaryIO) -> tuple[int, bytes]:
    status = int(stream.readline().split()[1])
    length = 0
    while (line := stream.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name == b"content-length":
            length = int(value)
    return status, stream.read(length)


def stored(broker: BrokerProcess, topic: str) -> list[str]:
    page = HttpCaller(broker.http_port)("GET", f"/topics/{topic}/messages?partition=0&offset=0&limit=10000")
    return [message["value"] for message in page.body["messages"]]


def test_requests_sent_at_once_are_stored_and_answered_in_order(shared_broker: BrokerProcess, topic: str):
    count = 500
    with connection(shared_broker) as (sock, stream):
        sock.sendall(b"".join(publish(topic, str(number)) for number in range(count)))
        for number in range(count):
            status, body = response(stream)
            assert (status, json.loads(body)["results"]) == (200, [{"partition": 0, "offset": number}])
    assert stored(shared_broker, topic) == [str(number) for number in range(count)]


def test_a_request_may_come_in_two_parts_cut_anywhere(shared_broker: BrokerProcess, topic: str):
    cuts = range(1, len(publish(topic, "0000")))
    with connection(shared_broker) as (sock, stream):
        for cut in cuts:
            request = publish(topic, f"{cut:04}")
            sock.sendall(request[:cut])
            sock.sendall(request[cut:])
            assert response(stream)[0] == 200
    assert stored(shared_broker, topic) == [f"{cut:04}" for cut in cuts]


def test_a_request_may_come_byte_by_byte_and_in_chunks(shared_broker: BrokerProcess, topic: str):
    body = json.dumps({"messages": [{"value": "chunked"}]}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    head = f"POST /v1/topics/{topic}/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    with connection(shared_broker) as (sock, stream):
        for byte in head.encode() + chunks:
            sock.sendall(bytes([byte]))
        assert response(stream)[0] == 200
    assert stored(shared_broker, topic) == ["chunked"]


def test_a_request_that_is_broken_off_stores_nothing(shared_broker: BrokerProcess, topic: str):
    for cut in (10, -1):
        with connection(shared_broker) as (sock, _):
            sock.sendall(publish(topic, "lost")[:cut])
    with connection(shared_broker) as (sock, stream):
        sock.sendall(publish(topic, "kept"))
        assert response(stream)[0] == 200
    assert stored(shared_broker, topic) == ["kept"]


def test_what_follows_good_requests_is_refused_after_their_responses(shared_broker: BrokerProcess, topic: str):
    with connection(shared_broker) as (sock, stream):
        sock.sendall(publish(topic, "a") + publish(topic, "b") + b"\x00\x00\r\n\r\n")
        assert [response(stream)[0] for _ in range(3)] == [200, 200, 400]
        assert stream.read() == b""
    assert stored(shared_broker, topic) == ["a", "b"]


def test_a_client_that_asks_before_it_sends(shared_broker: BrokerProcess, topic: str):
    head, _, body = publish(topic, "asked", "expect: 100-continue").partition(b"\r\n\r\n")
    with connection(shared_broker) as (sock, stream):
        sock.sendall(head + b"\r\n\r\n")
        assert stream.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert stream.readline() == b"\r\n"
        sock.sendall(body)
        assert response(stream)[0] == 200
    with connection(shared_broker) as (sock, stream):
        sock.sendall(head.replace(b"content-length: ", b"content-length: 1000000") + b"\r\n\r\n")
        assert response(stream)[0] == 413
        assert stream.read() == b"", "whether the body follows is not known: so nothing more is read"


def test_what_was_received_for_a_client_that_left_is_available_again(
    shared_broker: BrokerProcess, q: quiver.Client, topic: str
):
    """The second request waits behind the first, and its client leaves before it has its turn."""
    body = b'{"group": "g", "wait": "60s", "visibility": "1h"}'
    receive = b"POST /topics/%b/receive HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b"
    with connection(shared_broker) as (sock, _):
        sock.sendall(2 * (receive % (topic.encode(), len(body), body)))
    q.publish(topic, "a")
    with connection(shared_broker) as (sock, stream):
        sock.sendall(receive % (topic.encode(), len(body), body))
        [message] = json.loads(response(stream)[1])["messages"]
    assert (message["value"], message["attempt"]) == ("a", 1)
