"""The ways of messages whose headers say where they came from."""

from pathlib import Path
from typing import TYPE_CHECKING

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import lineage, replay
from spark.topic_rows import new_topic, sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_dead_letters_copies_and_traces(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    queue, copy, last = HttpQueue(spark_broker), new_topic(spark_broker), new_topic(spark_broker)
    queue.publish("a", "b", "c")
    queue.settle("reject", queue.receive_one(), reason="no good")
    broker = {"bootstrap": spark_broker.address}
    for source, target in ((queue.topic, copy), (copy, last)):
        replay.run(spark, {"topic": source, **broker}, target, lineage=True)
    with quiver.connect(spark_broker.address) as client:
        client.publish(copy, b"traced", headers={"traceparent": TRACE})
        client.publish(last, b"traced", headers={"traceparent": TRACE})
    first = sdk_rows(spark_broker, queue.topic)[0]
    message = f"{queue.topic}/{first.partition}/{first.offset}"
    topics = ",".join((queue.topic, copy, last, f"{queue.topic}.dlq"))
    summary = lineage.run(spark, {"topics": topics, **broker}, message=message, out=tmp_path / "graph.mmd")
    edges = {(edge["source"], edge["target"], edge["by"]): edge for edge in summary.details["edges"]}
    counts = {names: edge["messages"] for names, edge in edges.items()}
    assert counts == {
        (queue.topic, copy, "lineage"): 3,
        (copy, last, "lineage"): 3,
        (queue.topic, f"{queue.topic}.dlq", "dead letter"): 1,
        (copy, last, "trace"): 1,
    }
    assert all(edge["delay_p50_ms"] >= 0 for edge in edges.values())
    ways = {(step["origin"].split("/")[0], step["place"].split("/")[0]) for step in summary.details["steps"]}
    assert {(queue.topic, copy), (copy, last)} <= ways
    assert any("<- this message" in line for line in summary.lines)
    assert (tmp_path / "graph.mmd").read_text().startswith("flowchart LR\n")
    assert [header for row in sdk_rows(spark_broker, last) for header in dict(row.headers) if "lineage" in header]
    assert lineage.run(spark, {"topics": topics, **broker}, dry_run=True).details["dry_run"]
