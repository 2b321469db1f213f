"""The latency report of a live directory: figures that the broker's own timestamps bound, and its files."""

import csv
import json
import struct
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import latency
from spark.topic_rows import new_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAUSE_MS = 200
MESSAGES = 40


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def used_queue(broker: BrokerProcess) -> tuple[HttpQueue, list[dict[str, Any]], int]:
    """Forty messages: all acked but one that is rejected; one of them was given back first, and came again late.

    Also the messages as they were first delivered, and when the one that was given back could be had again. The
    others were delivered before it was given back and acked after it came again, so that took the pause at least.
    """
    queue = HttpQueue(broker, partitions=2)
    for number in range(0, MESSAGES, 10):
        queue.publish(*(str(n) for n in range(number, number + 10)), key=f"k{number}")
    messages = queue.receive_all(MESSAGES)
    given_back = queue.settle("nack", messages[0], delay=f"{PAUSE_MS}ms", reason="not now")
    again = queue.receive_one()
    queue.settle("reject", messages[1], reason="no good")
    results = queue.settle_many("ack", [again, *messages[2:]])
    assert all(result["success"] for result in results)
    assert len(queue.receive_all(3, group="others", max_messages=3)) == 3
    return queue, messages, ms(given_back["next_visible_at"])


class Tables(HTMLParser):
    """Rows of tables as texts, and which tags are open at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert not any(name in ("src", "href") for name, _ in attributes), "nothing is loaded"
        self.seen.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def check_files(out: Path, topic: str) -> None:
    picture = (out / "latency.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert (width, height) == (1680, 504)
    page = Tables()
    page.feed((out / "latency.html").read_text())
    page.close()
    assert page.open == []
    assert {"svg", "polyline", "circle"} & page.seen
    totals = next(row for row in page.rows if row[:2] == [topic, "workers"])
    assert totals[2:5] == [str(MESSAGES - 1), "1", "1"]
    assert len(totals) == 2 + 3 + 3 * 5


def test_a_report_of_a_live_directory(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    queue, messages, visible_ms = used_queue(spark_broker)
    words = [queue.topic, "--path", str(spark_broker.data_dir), "--out", str(tmp_path / "report"), "--output", "json"]
    capfd.readouterr()
    assert latency.main(words) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    said = json.loads(printed.out)
    assert (said["groups"], said["files"]) == (["workers", "others"], 4)
    total = next(cell for cell in said["totals"] if cell["group"] == "workers")
    counts = {name: total[name] for name in ("attempts", "redeliveries", "acks", "dead_letters", "publish_unknown")}
    assert counts == {
        "attempts": MESSAGES + 1,
        "redeliveries": 1,
        "acks": MESSAGES - 1,
        "dead_letters": 1,
        "publish_unknown": 0,
    }
    waits = [ms(message["first_delivered"]) - ms(message["appended_at"]) for message in messages]
    assert total["publish_to_delivery_count"] == MESSAGES
    assert total["publish_to_delivery_max_ms"] >= max(waits)
    assert total["delivery_to_ack_count"] == total["publish_to_ack_count"] == MESSAGES - 1
    assert PAUSE_MS <= total["delivery_to_ack_p50_ms"] <= total["delivery_to_ack_max_ms"]
    assert total["publish_to_ack_max_ms"] >= visible_ms - ms(messages[0]["appended_at"])
    other = next(cell for cell in said["totals"] if cell["group"] == "others")
    assert (other["attempts"], other["acks"], other["publish_to_ack_max_ms"]) == (3, 0, 0)
    written = json.loads((tmp_path / "report" / "latency.json").read_text())
    assert written["totals"] == said["totals"]
    with (tmp_path / "report" / "latency.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if line["group"] == "workers"]
    assert sum(int(line["acks"]) for line in lines) == MESSAGES - 1
    check_files(tmp_path / "report", queue.topic)


def test_stream_groups_by_minute(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    """From publish to commit; the first commit says where the next one begins."""
    topic, half = new_topic(spark_broker, partitions=1), MESSAGES // 2
    publish(spark_broker, topic, MESSAGES)
    group = {"group": f"{topic}-readers", "auto_commit": False}
    with quiver.connect(spark_broker.address) as client, client.stream(topic, **group) as messages:
        for _ in range(2):
            for _ in zip(range(half), messages, strict=False):
                continue
            messages.commit()
    source = {"topic": topic, "path": str(spark_broker.data_dir)}
    assert latency.run(spark, source, tmp_path, by="minute", dry_run=True).rows == 1
    summary = latency.run(spark, source, tmp_path, by="minute")
    total = summary.details["totals"][0]
    assert (total["group"], total["acks"], total["attempts"]) == (f"{topic}-readers", half, 0)
    assert (total["publish_to_ack_count"], total["delivery_to_ack_count"]) == (half, 0)
    written = json.loads((tmp_path / "latency.json").read_text())
    assert sum(cell["acks"] for cell in written["minutes"]) == half
    assert all(cell["minute"].endswith(":00Z") for cell in written["minutes"])


def test_what_there_is_no_report_of(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = HttpQueue(spark_broker)
    queue.publish("a")
    words = [queue.topic, "--path", str(spark_broker.data_dir), "--out", str(tmp_path / "report")]
    assert latency.main(words) == 1
    assert "nothing was ever delivered" in capsys.readouterr().err
    queue.settle("ack", queue.receive_one())
    assert latency.main([*words, "--group", "nobody"]) == 1
    assert "there is no group 'nobody'; there are" in capsys.readouterr().err
    assert latency.main([*words, "--to", "-1h"]) == 1
    assert "in that time" in capsys.readouterr().err
    assert latency.main([*words, "--from", "17"]) == 1
    assert "is a time" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
