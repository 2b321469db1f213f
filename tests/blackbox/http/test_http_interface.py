"""The HTTP interface of the shipped program, as INTERFACE promises it to users."""

import base64
import itertools
import json
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

_names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def http(shared_broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_broker.http, timeout=30) as client:
        yield client


@pytest.fixture
def topic(http: httpx.Client) -> str:
    name = next(_names)
    assert http.post("/topics", json={"name": name, "partitions": 1}).status_code == 201
    return name


def publish(http: httpx.Client, topic: str, *messages: dict[str, object]) -> list[dict[str, object]]:
    answer = http.post(f"/topics/{topic}/messages", json={"messages": list(messages)})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def read(http: httpx.Client, topic: str, **query: object) -> dict[str, object]:
    answer = http.get(f"/topics/{topic}/partitions/0/messages", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def values(page: dict[str, object]) -> list[str]:
    return [message["value"] for message in page["messages"]]


def test_what_is_published_is_read_again_with_all_it_carries(http: httpx.Client, topic: str) -> None:
    results = publish(
        http,
        topic,
        {
            "key": "k",
            "value": "text é",
            "headers": {"source": "web"},
            "headers_base64": {"raw": "/w=="},
            "timestamp": "2026-01-31T12:00:00Z",
            "priority": "high",
        },
        {"value": {"id": 1, "tags": ["a"]}, "ttl": "1h"},
        {"value_base64": "AP8="},
        {"key": "k", "tombstone": True},
    )
    assert [(result["partition"], result["offset"]) for result in results] == [(0, n) for n in range(4)]
    first, second, third, fourth = read(http, topic)["messages"]
    assert (first["key"], first["value"], first["priority"]) == ("k", "text é", "high")
    assert (first["headers"], first["headers_base64"]) == ({"source": "web"}, {"raw": "/w=="})
    assert first["timestamp"] == "2026-01-31T12:00:00.000Z"
    assert first["appended_at"] > first["timestamp"]
    assert json.loads(second["value"]) == {"id": 1, "tags": ["a"]}
    assert base64.b64decode(third["value_base64"]) == b"\x00\xff"
    assert "value" not in third
    assert (fourth["key"], fourth["value"], fourth["tombstone"]) == ("k", None, True)


def test_pages_follow_each_other_by_next_offset(http: httpx.Client, topic: str) -> None:
    publish(http, topic, *({"value": str(n)} for n in range(250)))
    seen, offset = [], 0
    while page := read(http, topic, offset=offset, limit=60):
        if not page["messages"]:
            break
        seen += values(page)
        offset = page["next_offset"]
    assert seen == [str(n) for n in range(250)]


def test_a_time_range_is_by_append_time(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"value": "early"})
    first = read(http, topic)["messages"][0]["appended_at"]
    while publish(http, topic, {"value": "late"}) and read(http, topic)["messages"][-1]["appended_at"] == first:
        pass
    last = read(http, topic)["messages"][-1]["appended_at"]
    assert values(read(http, topic, from_time=last))[-1:] == ["late"]
    assert "early" not in values(read(http, topic, from_time=last))
    assert values(read(http, topic, to_time=first))[0] == "early"
    assert read(http, topic, from_time="2099-01-01T00:00:00Z")["messages"] == []


def test_delays_are_accepted_or_refused_message_by_message(http: httpx.Client, topic: str) -> None:
    delayed = [{"value": "x", "delay": "5m"}, {"value": "x", "deliverAt": "2099-01-01T00:00:00Z"}]
    results = publish(http, topic, *delayed, {"value": "now"})
    assert [(result.get("code"), result.get("delayed")) for result in results] == [
        (None, True),
        ("invalid_request", None),
        (None, None),
    ]
    assert values(read(http, topic)) == ["now"]


def test_a_message_over_the_limit_is_refused_alone(http: httpx.Client, topic: str) -> None:
    results = publish(http, topic, {"value": "x" * 1_100_000}, {"value": "small"})
    assert [result.get("code") for result in results] == ["message_too_large", None]


@pytest.mark.parametrize("media", ["application/json", "application/msgpack"])
def test_a_page_of_ten_thousand_arrives_whole(http: httpx.Client, topic: str, media: str) -> None:
    for start in range(0, 10_000, 2_500):
        publish(http, topic, *({"value": f"{n:0100}"} for n in range(start, start + 2_500)))
    answer = http.get(f"/topics/{topic}/messages", params={"limit": 10_000}, headers={"accept": media})
    decode = msgspec.msgpack.decode if media == "application/msgpack" else msgspec.json.decode
    page = decode(answer.content)
    assert [int(message["value"]) for message in page["messages"]] == list(range(10_000))
    assert page["next_offset"] == 10_000


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_large_answers_are_compressed_on_request(http: httpx.Client, topic: str, encoding: str) -> None:
    publish(http, topic, *({"value": "again and again"} for _ in range(2_000)))
    path = f"/topics/{topic}/messages"
    with http.stream("GET", path, params={"limit": 2_000}, headers={"accept-encoding": encoding}) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == encoding
    plain = http.get(path, params={"limit": 2_000}, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(raw) < len(plain.content) / 5


def test_concurrent_publishes_each_get_an_offset_of_their_own(http: httpx.Client, topic: str) -> None:
    def one(number: int) -> int:
        return publish(http, topic, {"value": str(number)})[0]["offset"]

    with ThreadPoolExecutor(16) as pool:
        offsets = list(pool.map(one, range(400)))
    assert sorted(offsets) == list(range(400))
    stored = values(read(http, topic, limit=1_000))
    assert [stored[offset] for offset in offsets] == [str(number) for number in range(400)]


def test_http_and_the_native_port_see_the_same_messages(
    http: httpx.Client, shared_broker: BrokerProcess, topic: str
) -> None:
    publish(http, topic, {"key": "k", "value": "from http", "headers": {"h": "v"}, "priority": "low"})
    with quiver.connect(shared_broker.address) as q:
        q.publish(topic, b"from native", key="k")
        found = list(q.read(topic, end="latest"))
    assert [message.value for message in found] == [b"from http", b"from native"]
    assert found[0].headers == {"h": b"v"}
    assert values(read(http, topic)) == ["from http", "from native"]


def test_keys_land_where_the_sdk_puts_them(http: httpx.Client, shared_broker: BrokerProcess) -> None:
    name = next(_names)
    http.post("/topics", json={"name": name, "num_partitions": 7})
    keys = [f"customer-{n}" for n in range(50)]
    over_http = [result["partition"] for result in publish(http, name, *({"key": key, "value": ""} for key in keys))]
    with quiver.connect(shared_broker.address) as q:
        assert over_http == [q.publish(name, b"", key=key).partition for key in keys]


def test_a_topic_lives_through_create_alter_grow_purge_delete(http: httpx.Client) -> None:
    name = next(_names)
    assert http.post("/topics", json={"name": name, "partitions": 2, "retention_hours": 1}).status_code == 201
    assert http.post("/topics", json={"name": name}).status_code == 409
    assert name in http.get("/topics").json()["topics"]
    publish(http, name, {"value": "a", "partition": 1})
    described = http.get(f"/topics/{name}").json()
    assert (described["partitions"], described["total_messages"], described["config"]["retention"]) == (2, 1, "1h")
    assert described["partition_offsets"]["1"]["latest"] == 1
    assert http.patch(f"/topics/{name}", json={"retention": "2h"}).json()["config"]["retention"] == "2h"
    grown = http.post(f"/admin/topics/{name}/partitions", json={"count": 4}).json()
    assert (grown["old_partition_count"], grown["new_partition_count"], grown["partitions_added"]) == (2, 4, [2, 3])
    assert http.post(f"/topics/{name}/purge").status_code == 200
    assert http.get(f"/topics/{name}").json()["partition_offsets"]["1"]["earliest"] == 1, "offsets go on"
    assert http.delete(f"/topics/{name}").json() == {"name": name, "deleted": True}
    assert http.get(f"/topics/{name}").status_code == 404


def test_health_version_and_stats(http: httpx.Client, topic: str) -> None:
    assert http.get("/health").json()["status"] == "ok"
    assert {http.get(path).json()["status"] for path in ("/healthz", "/livez", "/readyz")} == {"pass"}
    assert set(http.get("/readyz").json()["checks"]) == {"disk", "storage", "event_loop_lag", "memory"}
    assert set(http.get("/version").json()) == {"version", "git_commit", "build_time"}
    before = http.get("/stats").json()
    publish(http, topic, {"value": "x"})
    stats = http.get("/stats").json()
    assert stats["topics"] == len(stats["topic_stats"])
    assert stats["topic_stats"][topic]["messages"] == 1
    assert stats["total_size_bytes"] > before["total_size_bytes"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, "route_not_found"),
        ("PUT", "/topics", {}, 405, "method_not_allowed"),
        ("GET", "/topics/absent", None, 404, "topic_not_found"),
        ("POST", "/topics/absent/messages", {"messages": [{"value": "x"}]}, 404, "topic_not_found"),
        ("POST", "/topics", {"name": "a/b"}, 400, "invalid_name"),
        ("POST", "/topics", {"name": "a", "partitions": -1}, 400, "invalid_setting"),
        ("POST", "/topics", {"name": ["a"]}, 400, "invalid_request"),
    ],
)
def test_errors_are_objects_of_the_catalogue(
    http: httpx.Client, method: str, path: str, body: object, status: int, code: str
) -> None:
    for prefix in ("", "/v1"):
        answer = http.request(method, prefix + path, json=body)
        error = answer.json()
        assert (answer.status_code, error["status"], error["code"]) == (status, status, code)
        assert error["error"]
        assert error["retryable"] is False


def test_a_body_over_the_limit_is_413_and_costs_no_memory(shared_broker: BrokerProcess, topic: str) -> None:
    before = shared_broker.resident_bytes()
    with socket.create_connection(("127.0.0.1", shared_broker.http_port), timeout=30) as client:
        client.sendall(
            b"POST /topics/%s/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 100000000\r\n\r\n" % topic.encode()
        )
        for _ in range(90):
            client.sendall(bytes(1_000_000))
        head = client.recv(65_536)
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"request_too_large" in head
    assert shared_broker.resident_bytes() - before < 20_000_000


def test_messages_outlive_a_kill(broker: BrokerProcess) -> None:
    broker.request("POST", "/topics", {"name": "orders", "partitions": 1})
    broker.request("POST", "/topics/orders/messages", {"messages": [{"value": str(n)} for n in range(100)]})
    broker.restart(kill=True)
    _, page = broker.request("GET", "/topics/orders/messages")
    assert values(page) == [str(n) for n in range(100)]


def test_the_commands_of_the_documents_work(broker: BrokerProcess) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    text = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
    commands = re.findall(r"^curl .*$", text, re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        words = shlex.split(command.replace("localhost:7480", broker.http))
        ended = subprocess.run([*words, "--silent", "--show-error"], capture_output=True, text=True, timeout=30)
        assert ended.returncode == 0, (command, ended.stderr)
        assert json.loads(ended.stdout)
