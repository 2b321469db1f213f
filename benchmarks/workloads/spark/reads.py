"""Spark reads a topic: full scans, counts and an aggregation, against the same rows in Parquet files; streams.

The topic has eight partitions. Everything is read once before the time runs, so the JVM is warm and the files are in
the page cache. Broker, JVM and Python workers share the machine's cores.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import quiver
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.workloads.messages.filling import fill_distinct
from benchmarks.workloads.spark.process import SparkProcess

SIZE = 100
FULL_MESSAGES = 10_000_000
CURVE_MESSAGES = (1_000_000, 10_000_000, 50_000_000)
BATCH_ROWS = 2_000_000
PARTITIONS = 8
PACE_SECONDS = 0.05
PACE_MESSAGES = 10
FOLLOW_SECONDS = 20.0
FOLLOW_TIMEOUT = 120.0
WARM_BATCHES = 5

Source = dict[str, str]


def measure_spark_reads(run: Run) -> None:
    count = run.scale.count(FULL_MESSAGES)
    parquet = str(run.scratch / "spark-parquet")
    with Broker(run.scratch / "spark-reads") as broker, SparkProcess() as spark:
        _fill(broker, "scanned", count)
        broker_source = {"topic": "scanned", "bootstrap": broker.address, "localFiles": "false"}
        files_source = {"topic": "scanned", "path": str(broker.data_dir)}
        spark.run(write_parquet, files_source, parquet)
        reads: dict[str, tuple[Callable[..., Any], Any]] = {
            "full scan through the broker": (scan, broker_source),
            "full scan of segment files": (scan, files_source),
            "full scan of Parquet": (scan, parquet),
            "count through the broker": (count_all, broker_source),
            "count of Parquet": (count_all, parquet),
            "count of one column through the broker": (count_rows, broker_source),
            "count of one column of segment files": (count_rows, files_source),
            "aggregation through the broker": (aggregate, broker_source),
            "aggregation of Parquet": (aggregate, parquet),
            "availableNow": (
                stream_all,
                (broker_source, count // 5 if count < BATCH_ROWS else BATCH_ROWS, run.scratch),
            ),
        }
        for work, source in reads.values():
            spark.run(work, source)
        for _ in run.few_repetitions():
            for detail, (work, source) in reads.items():
                _measure(run, spark, broker, f"{detail}, {count} messages", work, source, count)
        for trigger in ("default", "1 second"):
            _measure_latency(run, spark, broker, trigger)
        with run.measuring("quiver", "spark-reads", detail="session and workers") as metrics:
            metrics["start_s"] = spark.start_seconds
            metrics["worker_peak_mb"] = spark.worker_peak_mb()


def measure_spark_curve(run: Run) -> None:
    """The same full scan through the broker of topics of three sizes."""
    with SparkProcess() as spark:
        for full in CURVE_MESSAGES:
            count = run.scale.count(full)
            with Broker(run.scratch / "spark-curve") as broker:
                _fill(broker, "scanned", count)
                source = {"topic": "scanned", "bootstrap": broker.address, "localFiles": "false"}
                spark.run(scan, source)
                for _ in run.few_repetitions():
                    _measure(run, spark, broker, f"{full} messages", scan, source, count, workload="spark-curve")
        with run.measuring("quiver", "spark-curve", detail="workers") as metrics:
            metrics["worker_peak_mb"] = spark.worker_peak_mb()


def _measure(
    run: Run,
    spark: SparkProcess,
    broker: Broker,
    detail: str,
    work: Callable[..., Any],
    source: Any,
    count: int,
    workload: str = "spark-reads",
) -> None:
    with run.measuring("quiver", workload, size=SIZE, detail=detail, server_pids=[broker.pid]) as metrics:
        seconds = spark.run(work, source)
        metrics["rate"] = count / seconds
        metrics["seconds"] = seconds


def _measure_latency(run: Run, spark: SparkProcess, broker: Broker, trigger: str) -> None:
    topic = f"followed-{trigger.split()[0]}"
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS)
    seconds = max(5.0, FOLLOW_SECONDS * run.scale.share)
    detail = f"publish to sink, {trigger} trigger"
    with run.measuring("quiver", "spark-reads", detail=detail, server_pids=[broker.pid]) as metrics:
        source = {"topic": topic, "bootstrap": broker.address}
        metrics |= latency_metrics("sink", spark.run(follow, source, trigger, seconds, run.scratch))


def _fill(broker: Broker, topic: str, count: int) -> None:
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=PARTITIONS)
    run_roles({"fill": Role(fill_distinct, (broker.address, topic, count, SIZE, PARTITIONS))}, timeout=600)


# what runs in the process with the session


def frame_of(spark: Any, source: Any, schema: str | None = None) -> Any:
    if isinstance(source, str):
        return spark.read.parquet(source)
    reader = spark.read.format("quiver").options(**source)
    return (reader.schema(schema) if schema else reader).load()


def write_parquet(spark: Any, source: Source, path: str) -> None:
    frame_of(spark, source).write.parquet(path)


def scan(spark: Any, source: Any) -> float:
    """Every column of every row, to nowhere."""
    begin = time.monotonic()
    frame_of(spark, source).write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin


def count_all(spark: Any, source: Any) -> float:
    """As a user counts: of a frame with all columns."""
    begin = time.monotonic()
    assert frame_of(spark, source).count() > 0
    return time.monotonic() - begin


def count_rows(spark: Any, source: Any) -> float:
    begin = time.monotonic()
    assert frame_of(spark, source, "offset BIGINT").count() > 0
    return time.monotonic() - begin


def aggregate(spark: Any, source: Any) -> float:
    """Messages and bytes of each partition."""
    begin = time.monotonic()
    frame = frame_of(spark, source).selectExpr("partition", "length(value) AS bytes")
    assert 0 < len(frame.groupBy("partition").sum("bytes").collect()) <= PARTITIONS
    return time.monotonic() - begin


def stream_all(spark: Any, arguments: tuple[Source, int, Path]) -> float:
    """A stream of all there is, so many rows a batch."""
    source, rows, scratch = arguments
    checkpoint = scratch / f"checkpoint-{time.monotonic_ns()}"
    frame = spark.readStream.format("quiver").options(**source, maxRowsPerTrigger=rows).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    begin = time.monotonic()
    writer.trigger(availableNow=True).start().awaitTermination()
    return time.monotonic() - begin


def follow(spark: Any, source: Source, trigger: str, seconds: float, scratch: Path) -> list[float]:
    """How old each message was when the batch that it came with was done: ten messages every 50 ms."""
    lags: list[float] = []

    def take(frame: Any, batch: int) -> None:
        stamps = frame.selectExpr("unix_millis(timestamp) AS ms").toArrow().column("ms").to_pylist()
        now = time.time() * 1000
        lags.extend((now - stamp) / 1000 for stamp in stamps)

    checkpoint = scratch / f"checkpoint-{time.monotonic_ns()}"
    frame = spark.readStream.format("quiver").options(**source).load()
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = (writer if trigger == "default" else writer.trigger(processingTime=trigger)).start()
    try:
        with quiver.connect(source["bootstrap"]) as client, client.producer(source["topic"]) as producer:
            for number in range(WARM_BATCHES):
                producer.send_many([b"m" * SIZE])
                _await_count(query, lags, number + 1)
            for _ in range(int(seconds / PACE_SECONDS)):
                producer.send_many([b"m" * SIZE] * PACE_MESSAGES)
                time.sleep(PACE_SECONDS)
        _await_count(query, lags, WARM_BATCHES + int(seconds / PACE_SECONDS) * PACE_MESSAGES)
    finally:
        query.stop()
    return lags[WARM_BATCHES:]


def _await_count(query: Any, lags: list[float], count: int) -> None:
    deadline = time.monotonic() + FOLLOW_TIMEOUT
    while len(lags) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(lags)} of {count} messages came through in {FOLLOW_TIMEOUT:.0f} s")
        query.awaitTermination(0.05)
