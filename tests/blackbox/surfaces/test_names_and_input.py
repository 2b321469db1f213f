"""Names and HTTP input that mean harm, or mistakes: a clear error, and the broker goes on."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidName, QuiverError

BAD_NAMES = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "a b",
    "a\0b",
    "\0",
    "a\nb",
    "a:b",
    "topic*",
    "größe",
    "\u202eabc",
    "x" * 241,
    "x" * 250,
    "x" * 100_000,
]
GOOD_NAMES = ["x" * 240, "...", "a.b", "-", "_", "0", "A-z_0.9", "CON", "-rf", "lock", "internal", "__topics"]


def _short(name: str) -> str:
    return repr(name[:20])


@pytest.fixture(autouse=True)
def _still_well(shared_broker: BrokerProcess) -> Iterator[None]:
    """After every test the broker is ready and its files are where they belong."""
    yield
    assert shared_broker.request("GET", "/readyz")[0] == 200
    beside = {path.name for path in shared_broker.data_dir.parent.iterdir()}
    assert beside <= {"data", "data.broker.log"}


@pytest.mark.parametrize("name", BAD_NAMES, ids=_short)
def test_bad_names_are_refused_everywhere(shared_broker: BrokerProcess, name: str) -> None:
    status, answer = shared_broker.request("POST", "/topics", {"name": name})
    assert (status, answer["code"]) == (400, "invalid_name"), answer
    assert len(answer["error"]) < 1000
    with quiver.connect(shared_broker.address) as q:
        with pytest.raises(InvalidName):
            q.topics.create(name)
        with pytest.raises(QuiverError):
            q.publish(name, b"x")
    if name not in ("", ".", "..") and len(name) < 1000:
        status, answer = shared_broker.request("GET", f"/topics/{quote(name, safe='')}")
        assert status in (400, 404), answer
        assert answer["code"] in ("invalid_name", "topic_not_found", "route_not_found")


@pytest.mark.parametrize("name", GOOD_NAMES, ids=_short)
def test_good_names_work_and_never_reach_the_file_system(shared_broker: BrokerProcess, name: str) -> None:
    with quiver.connect(shared_broker.address) as q:
        q.topics.create(name, partitions=1)
        q.publish(name, b"hello")
        assert [m.value for m in q.read(name, end="latest")] == [b"hello"]
    status, topic = shared_broker.request("GET", f"/topics/{quote(name, safe='')}")
    assert (status, topic["name"]) == (200, name)
    directories = [path.name for path in (shared_broker.data_dir / "logs" / "topics").iterdir()]
    assert all(directory.isdigit() for directory in directories)
    status, answer = shared_broker.request("DELETE", f"/topics/{quote(name, safe='')}")
    assert (status, answer) == (200, {"deleted": name}) or answer.get("name") == name


def _raw_request(broker: BrokerProcess, method: str, path: str, body: bytes, content_type: str) -> tuple[int, Any]:
    request = urllib.request.Request(broker.http + path, body, {"content-type": content_type}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


BAD_BODIES = {
    "half an object": (b'{"name": "x"', 400),
    "not utf-8": (b'{"name": "\xff\xfe"}', 400),
    "a list": (b"[1, 2]", 400),
    "a number": (b"7", 400),
    "deep nesting": (b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "a name that is a number": (b'{"name": 7}', 400),
    "no name": (b"{}", 400),
    "nothing": (b"", 400),
    "partitions as text": (b'{"name": "x", "partitions": "many"}', 400),
    "no partitions": (b'{"name": "x", "partitions": 0}', 400),
    "negative partitions": (b'{"name": "x", "partitions": -3}', 400),
    "too many partitions": (b'{"name": "x", "partitions": 1000000000}', 400),
    "a huge number": (b'{"name": "x", "partitions": 1e400}', 400),
    "retention of nothing known": (b'{"name": "x", "retention": "soon"}', 400),
    "an unknown durability": (b'{"name": "x", "durability": "maybe"}', 400),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_topic_request_is_explained(shared_broker: BrokerProcess, name: str) -> None:
    body, expected = BAD_BODIES[name]
    status, answer = _raw_request(shared_broker, "POST", "/topics", body, "application/json")
    assert status == expected, answer
    assert set(answer) >= {"error", "code", "retryable", "status"}
    assert answer["status"] == expected
    assert shared_broker.request("GET", "/topics/x")[0] == 404


def test_bad_messages_do_not_spoil_the_good_ones_beside_them(shared_broker: BrokerProcess) -> None:
    shared_broker.request("POST", "/topics", {"name": "mixed", "partitions": 2})
    messages = [
        {"value": "good", "partition": 0},
        {"value": "no such partition", "partition": 99},
        {"value_base64": "%%%", "partition": 0},
        {"value": "x" * 2_000_000, "partition": 0},
        {"value": "good too", "partition": 1},
    ]
    status, answer = shared_broker.request("POST", "/topics/mixed/messages", {"messages": messages})
    assert status == 200, answer
    assert [("error" in r and r["error"] is not None) for r in answer["results"]] == [False, True, True, True, False]
    with quiver.connect(shared_broker.address) as q:
        assert {m.value for m in q.read("mixed", end="latest")} == {b"good", b"good too"}


def test_a_huge_body_is_refused_from_its_length_alone(shared_broker: BrokerProcess) -> None:
    head = (
        "POST /topics/mixed/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 99999999999\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", shared_broker.http_port), timeout=20) as connection:
        connection.sendall(head.encode() + b"{")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_an_endless_chunked_body_is_cut_off(shared_broker: BrokerProcess) -> None:
    head = (
        "POST /topics HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    before = shared_broker.resident_bytes()
    with socket.create_connection(("127.0.0.1", shared_broker.http_port), timeout=20) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(400):
                connection.sendall(chunk)
            answer = connection.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
    assert answer in (b"",) or answer.startswith(b"HTTP/1.1 413")
    assert shared_broker.resident_bytes() - before < 200 * 1024 * 1024


@pytest.mark.parametrize("path", ["/nowhere", "/topics/a/b/c/d", "/v2/topics", "/%00", "/..%2f..%2fetc/passwd", "//"])
def test_unknown_routes(shared_broker: BrokerProcess, path: str) -> None:
    status, answer = shared_broker.request("GET", path)
    assert status in (400, 404), answer
    assert {"error", "code", "retryable", "status"} <= set(answer)
