"""The examples of docs/sdk.md, run as they are written."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

PAGE = Path(__file__).resolve().parents[3] / "docs" / "sdk.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_first_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]):
    exec(EXAMPLES[0].replace("localhost:7481", shared_broker.address), {})
    assert "{'id': 1}" in capsys.readouterr().out


def test_the_producer_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]):
    table = pa.table({"value": [b"x", b"y"]})
    with quiver.connect(shared_broker.address) as q:
        if "orders" not in q.topics.list():
            q.topics.create("orders")
        before = sum(q.offsets("orders").values())
        exec(EXAMPLES[1], {"q": q, "table": table})
        assert sum(q.offsets("orders").values()) == before + 5
    assert capsys.readouterr().out.strip().isdigit()


def test_the_search_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]):
    [example] = [text for text in EXAMPLES if "q.search(" in text]
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("orders", exist_ok=True)
        q.publish("orders", {"total": 301}, key="c-12")
        q.publish("orders", {"total": 300}, key="c-12")
        exec(example, {"q": q})
    found = capsys.readouterr().out
    assert "{'total': 301}" in found
    assert "{'total': 300}" not in found


def test_the_stream_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]):
    [example] = [text for text in EXAMPLES if "q.stream(" in text]
    with quiver.connect(shared_broker.address) as q:
        if "orders" not in q.topics.list():
            q.topics.create("orders")
        q.publish("orders", "first", partition=0)
        exec(example, {"q": q})
        assert q.groups.describe("billing").state == "empty"
    assert capsys.readouterr().out.strip()


def test_the_schedules_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]):
    [example] = [text for text in EXAMPLES if text.startswith("q.schedules")]
    with quiver.connect(shared_broker.address) as q:
        if "orders" not in q.topics.list():
            q.topics.create("orders")
        exec(example, {"q": q})
    assert capsys.readouterr().out == "True\n"


def test_the_work_example(shared_broker: BrokerProcess):
    [example] = [text for text in EXAMPLES if "q.work(" in text]
    sent: list[bytes] = []
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("emails", partitions=1)
        q.publish("emails", "first")
        q.publish("emails", "the last one")
        exec(example, {"q": q, "send": sent.append})
        assert sent == [b"first", b"the last one"]
        assert q.queues.depth("emails", "senders").leased == 0
        q.topics.delete("emails")


def test_the_worker_example(shared_broker: BrokerProcess):
    [example] = [text for text in EXAMPLES if "@q.worker(" in text]
    sent: list[bytes] = []

    def send(value: bytes) -> None:
        sent.append(value)
        q.stop_workers()

    with quiver.connect(shared_broker.address) as q:
        q.topics.create("emails", partitions=1)
        q.publish("emails", "only")
        exec(example, {"q": q, "send": send})
        assert sent == [b"only"]
        assert q.queues.depth("emails", "senders").leased == 0


def test_the_transaction_example(shared_broker: BrokerProcess):
    [example] = [text for text in EXAMPLES if "q.transaction(" in text]
    with quiver.connect(shared_broker.address) as q:
        for topic in ("orders", "invoices"):
            if topic not in q.topics.list():
                q.topics.create(topic)
        exec(example, {"q": q})
        assert sorted(message.value for message in q.read("invoices", end="latest")) == [b"a", b"b"]


def test_the_waiting_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]):
    [example] = [text for text in EXAMPLES if "MessageTimeout" in text]
    with quiver.connect(shared_broker.address) as q:
        q.topics.create("orders", exist_ok=True)
        exec(example, {"q": q, "quiver": quiver})
    assert capsys.readouterr().out == "quiet for now\n"


def test_no_example_goes_untested():
    assert len(EXAMPLES) == 9
