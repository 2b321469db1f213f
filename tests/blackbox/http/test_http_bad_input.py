"""Every route of the OpenAPI document with input that is wrong in every field: an error of the client, not ours."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from blackbox.processes.broker_process import BrokerProcess

TEXTS = ["", "\u00b2\u00b2\u00b2\u00b2\u00b2", "9" * 5000, "-1", "\x00", "1e400", "\u0663"]
NUMBERS = [-1, 2**31, 2**63, 10**30, 1e308]
OTHERS: list[Any] = [None, True, [None], {"x": {"y": []}}]
PACKED = [b"\xc1", b"\xc0", b"\x90", b"\x81\xc0\xc0", b"\xc7\x01\x05x", b"\xdf\xff\xff\xff\xff", b"\x80"]
BODIES = [b"", b"null", b"[]", b'"x"', b"7", b"{", b"\xff\xfe", b"{}", b'{"a":1,"a":2}', b"[" * 2000]
WAITS = {"wait", "timeout"}
"""Fields of which a large value is good, and waited for."""
KNOWN = {
    "topic": "t",
    "group": "g",
    "partition": "0",
    "id": "1",
    "producer": "1",
    "schedule": "s",
    "search": "0123456789abcdef",
    "offset": "0",
    "version": "0",
    "folder": "lib",
    "file": "dom.js",
    "trace": "0123456789abcdef0123456789abcdef",
    "job": "0123456789abcdef",
    "queue": "t",
    "partition_name": "p",
    "partition_id": "1",
    "transaction": "x",
    "name": "n",
    "node": "1",
    "lease": "1.1.0.1",
}


class Wire:
    """One connection, and another after one that broke."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)

    def send(self, method: str, path: str, body: bytes) -> int:
        form = "msgpack" if body in PACKED else "json"
        headers = {"Content-Type": f"application/{form}"} if body else {}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            if answer.headers["Content-Type"] == "application/x-ndjson":  # has no end
                self._connection.close()
            else:
                answer.read()
        except (http.client.HTTPException, ConnectionError):
            self._connection = self._connect()
            return 0
        return answer.status


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def bodies(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[bytes]:
    yield from (*BODIES, *PACKED)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return
    example = {name: value for name, value in content.get("example", {}).items() if name not in WAITS}
    for name in resolved(document, content["schema"]).get("properties", {}):
        if name in WAITS:
            continue
        for value in (*TEXTS, *NUMBERS, *OTHERS):
            yield json.dumps({**example, name: value}).encode()
    for name, value in example.items():
        if isinstance(value, list | dict):
            for inner in _within(value):
                yield json.dumps({**example, name: inner}).encode()


def _within(value: Any) -> Iterator[Any]:
    """The value with one of its parts exchanged, at every depth."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        parts = list(value) if isinstance(value, list) else dict(value)
        for bad in ("\u00b2\u00b2\u00b2\u00b2\u00b2", "9" * 5000, -1, 10**30, None, [], {}):
            parts[key] = bad  # type: ignore[index]
            yield list(parts) if isinstance(parts, list) else dict(parts)
        if isinstance(value[key], list | dict):
            for inner in _within(value[key]):
                parts[key] = inner  # type: ignore[index]
                yield list(parts) if isinstance(parts, list) else dict(parts)


def paths(path: str, operation: dict[str, Any]) -> Iterator[str]:
    def filled(**other: str) -> str:
        result = path
        for name, value in {**KNOWN, **other}.items():
            result = result.replace(f"{{{name}}}", quote(value, safe=""))
        return result

    queries = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    names = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
    assert set(names) <= set(KNOWN), "a name of a path that is not known here"
    yield filled()
    for name in names:
        for text in (*TEXTS, "..", "a/b", str(2**63), str(2**64), "2", "1:2"):
            yield filled(**{name: text})
    for name in queries:
        if name not in WAITS:
            for text in (*TEXTS, str(2**31), str(2**63), str(10**30), "1:2:3"):
                yield f"{filled()}?{name}={quote(text)}"


def is_elsewhere(path: str, target: str) -> bool:
    """Whether a part of the path is so odd that it leads to another route, or to none."""
    parts = target.partition("?")[0].split("/")
    return len(parts) != path.count("/") + 1 or "" in parts[1:]


@pytest.fixture(scope="module")
def document(shared_broker: BrokerProcess) -> dict[str, Any]:
    shared_broker.request("POST", "/topics", {"name": "t", "partitions": 1})
    shared_broker.request("POST", "/topics/t/messages", {"messages": [{"value": "v"}, {"value": "v", "delay": "1h"}]})
    shared_broker.request("POST", "/groups/g/join", {"client_id": "c", "topics": ["t"]})
    found: dict[str, Any] = shared_broker.request("GET", "/openapi.json")[1]
    return found


def test_bad_input_is_never_our_fault(shared_broker: BrokerProcess, document: dict[str, Any]) -> None:
    wire = Wire(shared_broker.http_port)
    ours: list[str] = []
    unknown: set[str] = set()
    count = 0
    for method, path, operation in operations(document):
        plain = next(paths(path, operation))
        requests = [(each, b"") for each in paths(path, operation)]
        requests += [(plain, body) for body in bodies(document, operation)]
        for target, body in requests:
            status = wire.send(method, target, body)
            count += 1
            if (status >= 500 and status != 501) or not status:
                ours.append(f"{status} {method} {target[:120]} {body[:200]!r}")
            elif str(status) not in operation["responses"] and not (status == 404 and is_elsewhere(path, target)):
                unknown.add(f"{status} {method} {path}")
    assert not ours, "\n".join(ours[:50])
    assert not unknown, "statuses that the document does not have: " + ", ".join(sorted(unknown))
    assert count > 3000
    assert shared_broker.request("GET", "/readyz")[0] == 200
    assert "Traceback" not in shared_broker.log_text


def test_what_the_document_calls_required_is(shared_broker: BrokerProcess, document: dict[str, Any]) -> None:
    wire = Wire(shared_broker.http_port)
    count = 0
    for method, path, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        target = next(paths(path, operation))
        if operation["requestBody"]["required"]:
            assert wire.send(method, target, b"") == 400, path
        for name in resolved(document, content["schema"]).get("required", []):
            example = {field: value for field, value in content["example"].items() if field != name}
            assert wire.send(method, target, json.dumps(example).encode()) == 400, (path, name)
            count += 1
    assert count > 20
