"""Traces through the shipped program: HTTP, the SDK, the command line, and a kill."""

import json
from typing import Any

import pyarrow as pa

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli
from quiver.model.trace.span import Trace

SPAN = "b7ad6b7169203331"


def parent(number: int, flags: str = "01") -> str:
    return f"00-{number:032x}-{SPAN}-{flags}"


def publish(broker: BrokerProcess, topic: str, messages: list[dict[str, Any]], traceparent: str) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=60)
    try:
        headers = {"content-type": "application/json", "traceparent": traceparent}
        connection.request("POST", f"/topics/{topic}/messages", json.dumps({"messages": messages}), headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    finally:
        connection.close()


def test_the_traceparent_of_a_request_and_of_a_message(shared_broker: BrokerProcess) -> None:
    queue = HttpQueue(shared_broker)
    publish(shared_broker, queue.topic, [{"value": "a"}], parent(0xA1))
    own = {"value": "b", "headers": {"traceparent": parent(0xA2)}}
    publish(shared_broker, queue.topic, [own, {"value": "c"}], parent(0xA3))
    publish(shared_broker, queue.topic, [{"value": "d"}], parent(0xA4, "00"))
    publish(shared_broker, queue.topic, [{"value": "e"}], "nonsense")
    messages = queue.receive_all(5)
    assert [message.get("headers", {}).get("traceparent") for message in messages] == [
        *(parent(0xA1), parent(0xA2), parent(0xA3), parent(0xA4, "00"), None),
    ]
    queue.settle_many("ack", messages)
    for number, offset in ((0xA1, 0), (0xA2, 1), (0xA3, 2)):
        trace = queue.call("GET", f"/traces/{number:032x}")
        assert [span["event_type"] for span in trace["spans"]] == [
            *("publish.persisted", "consume.fetched", "consume.acked"),
        ]
        assert (trace["status"], trace["offset"], trace["span_count"]) == ("completed", offset, 3)
        assert trace["spans"][0]["parent_span_id"] == SPAN
    assert queue.call("GET", f"/traces/{0xA4:032x}", status=404)["code"] == "trace_not_found"
    assert queue.call("GET", "/traces/1", status=400)["code"] == "invalid_request"
    listed = queue.call("GET", f"/traces/search?topic={queue.topic}&status=completed&consumer_group=workers")
    assert listed["total"] == 3
    assert queue.call("GET", "/traces?limit=1")["total"] == 1
    assert queue.call("GET", "/traces/stats")["spans_written"] >= 9
    assert queue.call("GET", "/traces/search?status=lost", status=400)["code"] == "invalid_request"


def events(trace: Trace) -> list[str]:
    return [span.event_type for span in trace.spans]


async def test_the_sdk_of_both_kinds(q: quiver.Client, shared_broker: BrokerProcess) -> None:
    q.topics.create("sampled", partitions=2)
    q.publish("sampled", b"x", key="k", headers={"traceparent": parent(0xB1)})
    with q.producer("sampled") as out:
        out.send_many([b"a", b"b"], headers={"traceparent": parent(0xB2)}, partition=1)
    assert events(q.traces.get(f"{0xB1:032x}")) == ["publish.persisted"]
    assert events(q.traces.get(f"{0xB2:032x}")) == ["publish.persisted"] * 2
    async with quiver.connect_async(shared_broker.address) as aq:
        found = await aq.traces.search(topic="sampled", key="k")
        assert [trace.trace_id for trace in found] == [f"{0xB1:032x}"]
        assert (await aq.traces.stats()).spans_dropped == 0
        assert await aq.traces.list(limit=1) == q.traces.list(limit=1)


def test_the_commands(q: quiver.Client, cli: Cli) -> None:
    q.topics.create("shown", partitions=1)
    q.publish("shown", b"x", headers={"traceparent": parent(0xC1)}, delay="10ms")
    for job in q.work("shown", group="workers", timeout="20s"):
        job.ack()
        break
    shown = json.loads(cli("trace", "show", f"{0xC1:032x}", "--output", "json").stdout)
    assert [span["event_type"] for span in shown["spans"]] == ["delay.fired", "consume.fetched", "consume.acked"]
    assert f"{0xC1:032x}" in cli("trace", "list").stdout.decode()
    table = cli("trace", "search", "--topic", "shown", "--status", "completed").stdout.decode().splitlines()
    assert len(table) == 2
    assert b"consume.acked" in cli("trace", "show", f"{0xC1:032x}").stdout
    assert b"no message of it was sampled" in cli("trace", "show", "f" * 32, fails=True).stderr


def test_a_kill_loses_no_message_and_keeps_what_was_written(broker: BrokerProcess) -> None:
    queue = HttpQueue(broker)
    publish(broker, queue.topic, [{"value": "a"}], parent(0xD1))
    before = queue.call("GET", f"/traces/{0xD1:032x}")
    publish(broker, queue.topic, [{"value": "b"}], parent(0xD2))
    broker.kill()
    broker.start()
    assert queue.call("GET", f"/traces/{0xD1:032x}") == before
    assert [message["value"] for message in queue.receive_all(2)] == ["a", "b"]
    publish(broker, queue.topic, [{"value": "c"}], parent(0xD3))
    queue.settle("ack", queue.receive_one())
    assert queue.call("GET", f"/traces/{0xD3:032x}")["status"] == "completed"


async def test_a_client_that_traces(shared_broker: BrokerProcess) -> None:
    own = parent(0xE1)
    with quiver.connect(shared_broker.address, tracing=1) as q:
        q.topics.create("begun", partitions=1)
        q.publish("begun", b"one")
        with q.producer("begun") as out:
            out.send(b"two")
            out.send(b"three", headers={"a": "b"})
            out.send_many([b"four", b"five"], keys=["k", None])
            headers = pa.array([[("traceparent", own.encode())], [("c", b"d")]], pa.map_(pa.string(), pa.binary()))
            out.send_arrow(pa.table({"value": [b"six", b"seven"], "headers": headers}))
        with q.producer("begun", compression="zstd") as out:
            out.send_many([b"eight"])
        with q.transaction() as tx:
            tx.publish("begun", b"nine")
        traces = q.traces.search(topic="begun")
        assert [len(trace.spans) for trace in traces] == [1] * 9
        messages = {message.value: message.headers for message in q.read("begun", end="latest")}
        assert len({headers["traceparent"] for headers in messages.values()}) == 9
        assert (messages[b"three"]["a"], messages[b"six"]["traceparent"]) == (b"b", own.encode())
        assert messages[b"seven"]["c"] == b"d"
        life = q.traces.message("begun", 0, 0)
        assert life.trace in {trace.trace_id for trace in traces}
    async with quiver.connect_async(shared_broker.address, tracing=1) as aq:
        await aq.publish("begun", b"ten")
        assert len(await aq.traces.search(topic="begun")) == 10


def test_one_in_ten_of_many(shared_broker: BrokerProcess) -> None:
    """Followed from publish to ack, in runs of messages; rows are read by anybody as JSON."""
    with quiver.connect(shared_broker.address, tracing=0.1) as q:
        q.topics.create("bulk", partitions=1)
        with q.producer("bulk") as out:
            for _ in range(10):
                out.send_many([b"x" * 100] * 500)
            for number in range(5_000):
                out.send(b"y", key=str(number))
        left = 10_000
        for batch in q.work("bulk", group="workers", timeout="20s", max_messages=700).batches():
            batch.ack()
            left -= len(batch)
            if not left:
                break
        sampled = {
            message.offset for message in q.read("bulk", end="latest") if "traceparent" in (message.headers or {})
        }
        assert 800 < len(sampled) < 1_200
        traces = q.traces.search(topic="bulk", limit=1_000)
        assert len(traces) == min(1_000, len(sampled))
        for trace in traces:
            assert events(trace) == ["publish.persisted", "consume.fetched", "consume.acked"]
            assert len({span.offset for span in trace.spans}) == 1
            assert trace.spans[0].offset in sampled
            assert trace.spans[1].parent_span_id == trace.spans[0].span_id
        stats = q.traces.stats()
        assert stats.spans_dropped == 0
        rows = [json.loads(message.value) for message in q.read("__traces", end="latest")]
        assert sum(row["topic"] == "bulk" for row in rows) == 3 * len(sampled)
