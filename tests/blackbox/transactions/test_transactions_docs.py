"""The examples of docs/transactions.md, run as they are written."""

import re
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

PAGE = Path(__file__).resolve().parents[3] / "docs" / "transactions.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_first_example(shared_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    exec(EXAMPLES[0].replace("localhost:7481", shared_broker.address), {})
    assert capsys.readouterr().out == "0\n"


def test_consume_transform_produce(shared_broker: BrokerProcess) -> None:
    with quiver.connect(shared_broker.address) as q:
        for topic in ("orders", "invoices", "emails", "sent"):
            q.topics.create(topic, partitions=1)
        for topic in ("orders", "emails"):
            for value in ("first", "the last one"):
                q.publish(topic, value, key="k")
        for example in EXAMPLES[1:3]:
            exec(example, {"q": q})
        invoices = [message.value for message in q.read("invoices", end="latest")]
        assert invoices == [b"for first", b"for the last one"]
        assert [message.value for message in q.read("sent", end="latest")] == [b"first", b"the last one"]
        assert q.groups.describe("billing").partitions[0].lag == 0
        assert q.queues.depth("emails", "senders").leased == 0


def test_no_example_goes_untested() -> None:
    assert len(EXAMPLES) == 3
