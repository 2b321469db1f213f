"""Spark's own Kafka source beside ours: the same rows, in the same session, on the same machine.

Kafka gets its rows from the topic of Quiver, by Spark's Kafka sink and into partitions of the same numbers. Both
brokers run all the time; the one that is not read is idle.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import quiver
from benchmarks.peers.kafka.installation import source_absence, source_directory
from benchmarks.peers.kafka.server import KafkaServer
from benchmarks.roles import Role, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import stop
from benchmarks.workloads.messages.filling import fill_distinct
from benchmarks.workloads.spark.process import SparkProcess
from benchmarks.workloads.spark.reads import frame_of

SIZE = 100
FULL_MESSAGES = 10_000_000
BATCH_ROWS = 2_000_000
PARTITIONS = 8
TOPIC = "scanned"
WORKLOAD = "spark-kafka"
FILES = "full scan by default, of the files on this machine"


def measure_spark_kafka(run: Run) -> None:
    problem = source_absence()
    if problem is not None:
        run.skip(f"kafka {WORKLOAD}", problem)
        return
    count = run.scale.count(FULL_MESSAGES)
    server = KafkaServer(flush_every_batch=False)
    process = server.start(run.scratch / "spark-kafka-server")
    try:
        jars = {"spark.driver.extraClassPath": str(source_directory() / "*")}
        with Broker(run.scratch / "spark-kafka") as broker, SparkProcess(**jars) as spark:
            _measure(run, spark, broker, server, count)
    finally:
        stop(process)


def _measure(run: Run, spark: SparkProcess, broker: Broker, server: KafkaServer, count: int) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.create(TOPIC, partitions=PARTITIONS)
    run_roles({"fill": Role(fill_distinct, (broker.address, TOPIC, count, SIZE, PARTITIONS))}, timeout=600)
    ours = {"format": "quiver", "topic": TOPIC, "bootstrap": broker.address, "localFiles": "false"}
    kafkas = {"format": "kafka", "subscribe": TOPIC, "kafka.bootstrap.servers": server.address}
    kafkas |= {"startingOffsets": "earliest"}
    spark.run(create_in_kafka, server.address)
    spark.run(copy_to_kafka, ours, server.address)
    assert spark.run(count_kafka, kafkas) == count
    rows = count // 5 if count < BATCH_ROWS else BATCH_ROWS
    reads: list[tuple[str, str, Callable[..., float], tuple[Any, ...]]] = [
        ("quiver", "full scan", scan, (ours,)),
        ("quiver", FILES, scan, ({name: value for name, value in ours.items() if name != "localFiles"},)),
        ("kafka", "full scan", scan, (kafkas,)),
        ("quiver", "availableNow", stream, (ours, {"maxRowsPerTrigger": str(rows)}, run.scratch)),
        ("kafka", "availableNow", stream, (kafkas, {"maxOffsetsPerTrigger": str(rows)}, run.scratch)),
    ]
    for _, _, work, arguments in reads:
        spark.run(work, *arguments)
    for _ in run.few_repetitions():
        for subject, detail, work, arguments in reads:
            with run.measuring(subject, WORKLOAD, size=SIZE, detail=detail) as metrics:
                seconds = spark.run(work, *arguments)
                metrics |= {"rate": count / seconds, "seconds": seconds}


# what runs in the process with the session


def create_in_kafka(spark: Any, address: str) -> None:
    """With the client that the source has."""
    jvm = spark._jvm
    settings = jvm.java.util.Properties()
    settings.setProperty("bootstrap.servers", address)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        topic = jvm.org.apache.kafka.clients.admin.NewTopic(TOPIC, PARTITIONS, 1)
        admin.createTopics(jvm.java.util.Collections.singleton(topic)).all().get()
    finally:
        admin.close()


def copy_to_kafka(spark: Any, source: dict[str, str], address: str) -> None:
    options = {name: value for name, value in source.items() if name != "format"}
    rows = frame_of(spark, options).select("key", "value", "partition")
    rows.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", TOPIC).save()


def count_kafka(spark: Any, source: dict[str, str]) -> int:
    return int(_reader(spark.read, source).load().count())


def scan(spark: Any, source: dict[str, str]) -> float:
    begin = time.monotonic()
    _reader(spark.read, source).load().write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin


def stream(spark: Any, source: dict[str, str], limit: dict[str, str], scratch: Path) -> float:
    checkpoint = scratch / f"checkpoint-{time.monotonic_ns()}"
    frame = _reader(spark.readStream, source).options(**limit).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    begin = time.monotonic()
    writer.trigger(availableNow=True).start().awaitTermination()
    return time.monotonic() - begin


def _reader(reader: Any, source: dict[str, str]) -> Any:
    return reader.format(source["format"]).options(**{k: v for k, v in source.items() if k != "format"})
