"""Writing a DataFrame into a topic with Spark on two cores, exactly once."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import quiver
from benchmarks.payload import payload
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZE = 100
FULL_ROWS = 10_000_000
PARTITIONS = 4
TOPICS = 8
MASTER = "local[2]"


def measure_spark_writes(run: Run) -> None:
    """Rows come from Parquet, as Spark's own source reads them; the session is warm."""
    if shutil.which("java") is None:
        run.skip("quiver spark-writes", "no Java")
        return
    import quiver_spark
    from quiver_spark.runtime.class_archive import await_archives

    count = run.scale.count(FULL_ROWS)
    spark = quiver_spark.session("spark-writes", master=MASTER)
    await_archives()
    try:
        with Broker(run.scratch / "spark-writes") as broker:
            rows = _rows(spark, run.scratch / "spark-writes-rows", count)
            for topic in ("warm-up", None):
                _write(broker, rows, topic, count)
            for number in run.few_repetitions():
                _measure(run, broker, rows.select("value"), f"values-{number}", "values", count)
                keyed = rows.select("key", "value")
                _measure(run, broker, keyed, f"keyed-{number}", "keys and values", count)
                _measure(run, broker, rows, f"one-{number}", "rows with topics, into one topic", count)
                _measure(run, broker, rows, None, "rows with topics, each into its topic", count)
    finally:
        spark.stop()


def _rows(spark: "SparkSession", place: Path, count: int) -> "DataFrame":
    filler = payload(SIZE - 16).hex()[: SIZE - 16]
    made = spark.range(0, count, 1, 4).selectExpr(
        "cast(cast(id % 1000 as string) as binary) key",
        f"cast(concat(lpad(cast(id as string), 16, '0'), '{filler}') as binary) value",
        f"concat('topic-', cast(id * 7919 % {TOPICS} as string)) topic",
    )
    made.write.parquet(str(place))
    return spark.read.parquet(str(place))


def _measure(run: Run, broker: Broker, rows: "DataFrame", topic: str | None, detail: str, count: int) -> None:
    with run.measuring(
        "quiver", "spark-writes", size=SIZE, durability="fsync", detail=detail, server_pids=[broker.pid]
    ) as metrics:
        metrics["rate"] = count / _write(broker, rows, topic, count)


def _write(broker: Broker, rows: "DataFrame", topic: str | None, count: int) -> float:
    """Seconds until every row is committed: into one topic, or each into that of its column."""
    topics = [f"topic-{number}" for number in range(TOPICS)] if topic is None else [topic]
    options = {"bootstrap": broker.address, **({} if topic is None else {"topic": topic})}
    with quiver.connect(broker.address) as client:
        for name in topics:
            client.topics.create(name, partitions=PARTITIONS)
        begin = time.monotonic()
        rows.write.format("quiver").options(**options).mode("append").save()
        took = time.monotonic() - begin
        found = sum(behind for name in topics for behind in client.offsets(name).values())
        if found < count:
            raise AssertionError(f"{found} of {count} rows are there")
        for name in topics:
            client.topics.delete(name)
    return took
