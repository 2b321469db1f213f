"""`quiver trace export`: a collector gets every span, also one that fails at first; what it has taken is not sent
again."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import quiver
from blackbox.processes.cli_process import Cli


class Collector(HTTPServer):
    """Answers with the next of `statuses`, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: list[int] = []
        self.documents: list[dict[str, Any]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[dict[str, Any]]:
        return [
            span
            for document in self.documents
            for resource in document["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            self.server.documents.append(json.loads(body))
            self.server.paths.append(self.path)
        self.send_response(status)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def publish(q: quiver.Client, number: int) -> None:
    q.publish("exported", b"x", headers={"traceparent": f"00-{number:032x}-b7ad6b7169203331-01"}, key="k")
    q.traces.get(f"{number:032x}")  # it is written


def test_every_span_goes_to_the_collector_once(q: quiver.Client, cli: Cli, collector: Collector) -> None:
    assert b"no message was sampled" in cli("trace", "export", "--otlp", collector.url, "--once", fails=True).stderr
    q.topics.create("exported", partitions=1)
    publish(q, 1)
    for job in q.work("exported", group="workers", timeout="20s"):
        job.reject("broken")
        break
    assert {span.event_type for span in q.traces.get(f"{1:032x}").spans} >= {"consume.fetched", "consume.rejected"}
    collector.statuses = [503, 429]
    done = cli("trace", "export", "--otlp", collector.url, "--once")
    assert done.stderr.count(b"trying again") == 2
    spans = {span["name"]: span for span in collector.spans()}
    assert {"publish exported", "receive exported", "reject exported"} <= set(spans)
    assert set(collector.paths) == {"/v1/traces"}
    published, rejected = spans["publish exported"], spans["reject exported"]
    assert (published["traceId"], published["parentSpanId"], published["kind"]) == (
        f"{1:032x}",
        "b7ad6b7169203331",
        4,
    )
    assert rejected["status"] == {"code": 2, "message": "broken"}
    assert int(rejected["endTimeUnixNano"]) >= int(rejected["startTimeUnixNano"])
    attributes = {each["key"]: each["value"] for each in rejected["attributes"]}
    assert attributes["messaging.consumer.group.name"] == {"stringValue": "workers"}
    assert attributes["messaging.destination.name"] == {"stringValue": "exported"}

    collector.documents.clear()
    publish(q, 2)
    cli("trace", "export", "--otlp", collector.url, "--once")
    assert f"{2:032x}" in {span["traceId"] for span in collector.spans()}
    assert published["spanId"] not in {span["spanId"] for span in collector.spans()}


def test_what_is_wrong_is_a_sentence(q: quiver.Client, cli: Cli, collector: Collector) -> None:
    assert b"is not an address such as" in cli("trace", "export", "--otlp", "localhost:4318", fails=True).stderr
    if "exported" not in q.topics.list():
        q.topics.create("exported", partitions=1)
    publish(q, 3)
    collector.statuses = [404]
    failed = cli("trace", "export", "--otlp", collector.url, "--once", "--group", "other", fails=True)
    assert b"is this the OTLP address" in failed.stderr
    cli("trace", "export", "--otlp", f"{collector.url}/v1/traces/", "--once", "--group", "other")
    assert f"{3:032x}" in {span["traceId"] for span in collector.spans()}
