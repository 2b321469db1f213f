"""Spark and 1.5 million orders in JSON, with keys: in a new session, as a user meets it, and in one that is warm.

The first figures are of new processes: from the start of Python to the result of the first query, the session
included. Parquet has the same rows. Keys are of customers; a look-up finds all orders of one.
"""

import time
from collections.abc import Callable
from typing import Any

import quiver
from benchmarks.json_orders import orders
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.workloads.spark.process import SparkProcess
from benchmarks.workloads.spark.reads import count_all, frame_of, scan, write_parquet

SIZE = 400
FULL_ORDERS = 1_500_000
CUSTOMERS = 50_000
PARTITIONS = 8
CHUNK = 5_000
WORKLOAD = "spark-orders"
FIELDS = "number BIGINT, paid BOOLEAN, customer STRUCT<country: STRING>"


def measure_spark_orders(run: Run) -> None:
    count = run.scale.count(FULL_ORDERS)
    parquet = str(run.scratch / "spark-orders-parquet")
    with Broker(run.scratch / "spark-orders") as broker:
        with quiver.connect(broker.address) as client:
            client.topics.create("orders", partitions=PARTITIONS)
        run_roles({"fill": Role(fill_orders, (broker.address, "orders", count))}, timeout=600)
        sources: dict[str, Any] = {
            "through the broker": {"topic": "orders", "bootstrap": broker.address, "localFiles": "false"},
            "of segment files": {"topic": "orders", "path": str(broker.data_dir)},
            "of Parquet": parquet,
        }
        with SparkProcess() as spark:
            spark.run(write_parquet, sources["of segment files"], parquet)
            _measure_warm(run, spark, sources, count)
        _measure_cold(run, sources, count)


def fill_orders(address: str, topic: str, count: int, watch: Watch) -> None:
    bodies = orders(SIZE, count)
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            values = [bodies[number % len(bodies)] for number in numbers]
            producer.send_many(values, [b"customer-%d" % (number * 7919 % CUSTOMERS) for number in numbers])
        producer.flush()
        watch.stop()


def _measure_warm(run: Run, spark: SparkProcess, sources: dict[str, Any], count: int) -> None:
    works: dict[str, Callable[..., Any]] = {
        "full scan": scan,
        "count": count_all,
        "aggregation": aggregate,
        "look-up of a key": find_key,
    }
    reads = [(f"{name} {where}", work, source) for name, work in works.items() for where, source in sources.items()]
    broker = "through the broker"
    reads += [(f"typed aggregation {broker}", aggregate_typed, sources[broker])]
    reads += [(f"aggregation by from_json {broker}", aggregate_from_json, sources[broker])]
    for _, work, source in reads:
        for _ in range(2):
            spark.run(work, source)
    for _ in run.few_repetitions():
        for detail, work, source in reads:
            with run.measuring("quiver", WORKLOAD, size=SIZE, detail=detail) as metrics:
                seconds = spark.run(work, source)
                metrics |= {"rate": count / seconds, "seconds": seconds}


def _measure_cold(run: Run, sources: dict[str, Any], count: int) -> None:
    """Each in a process of its own, which has read nothing before."""
    for _ in run.few_repetitions():
        for name, work in {"count": count_all, "aggregation": aggregate}.items():
            for where in ("through the broker", "of Parquet"):
                with run.measuring("quiver", WORKLOAD, size=SIZE, detail=f"first {name} {where}") as metrics:
                    begin = time.monotonic()
                    with SparkProcess() as spark:
                        metrics["query_s"] = spark.run(work, sources[where])
                        metrics["first_result_s"] = time.monotonic() - begin
                        metrics["start_s"] = spark.start_seconds


# what runs in the process with the session


def aggregate(spark: Any, source: Any) -> float:
    """Orders and bytes of each country, which is in the JSON."""
    begin = time.monotonic()
    frame = frame_of(spark, source).selectExpr(
        "get_json_object(cast(value AS string), '$.customer.country') AS country", "length(value) AS bytes"
    )
    assert frame.groupBy("country").sum("bytes").collect()
    return time.monotonic() - begin


def aggregate_typed(spark: Any, source: Any) -> float:
    """Paid orders of each country and the sum of their numbers, decoded by the workers."""
    begin = time.monotonic()
    assert _paid(frame_of(spark, {**source, "valueSchema": FIELDS})).collect()
    return time.monotonic() - begin


def aggregate_from_json(spark: Any, source: Any) -> float:
    """The same, decoded by Spark."""
    begin = time.monotonic()
    frame = frame_of(spark, source).selectExpr(f"from_json(cast(value AS string), '{FIELDS}') AS value")
    assert _paid(frame).collect()
    return time.monotonic() - begin


def _paid(frame: Any) -> Any:
    return frame.where("value.paid").groupBy("value.customer.country").sum("value.number")


def find_key(spark: Any, source: Any) -> float:
    begin = time.monotonic()
    assert frame_of(spark, source).where("key = CAST('customer-7919' AS BINARY)").collect()
    return time.monotonic() - begin
