"""Archiving a topic into a lake on two cores, against Spark's own Parquet writer from the same source.

The values do not compress. Everything runs once before the time does, so that the JVM and the Python
workers are warm; each run archives the whole topic into an empty lake, which is on disk when it ends.
"""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import quiver
from benchmarks.broker import Broker
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.spark_process import SparkProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 100
FULL_MESSAGES = 10_000_000
PARTITIONS = 8
CHUNK = 10_000
DISTINCT = 1_000_000

Source = dict[str, str]


def measure_spark_archive(run: Run) -> None:
    if shutil.which("java") is None:
        run.skip("quiver spark-archive", "no Java")
        return
    count = run.scale.count(FULL_MESSAGES)
    with Broker(run.scratch / "spark-archive") as broker, SparkProcess() as spark:
        with quiver.connect(broker.address) as client:
            client.topics.create("archived", partitions=PARTITIONS)
        run_roles({"fill": Role(_fill, (broker.address, "archived", count))}, timeout=600)
        sources = {
            "through the broker": {"topic": "archived", "bootstrap": broker.address},
            "of segment files": {"topic": "archived", "path": str(broker.data_dir)},
        }
        place = run.scratch / "spark-archive-lake"
        works: dict[str, Any] = {"archive": archive, "Spark's Parquet writer": write_parquet}
        for work in works.values():
            spark.run(work, sources["of segment files"], place)
        for _ in run.repetitions():
            for name, work in works.items():
                for where, source in sources.items():
                    _measure(run, spark, broker, f"{name} {where}", work, source, place, count)


def _measure(
    run: Run, spark: SparkProcess, broker: Broker, detail: str, work: Any, source: Source, place: Path, count: int
) -> None:
    with run.measuring("quiver", "spark-archive", size=SIZE, detail=detail, server_pids=[broker.pid]) as metrics:
        rows, seconds = spark.run(work, source, place)
        if rows not in (None, count):
            raise AssertionError(f"{rows} of {count} rows are there")
        metrics["rate"] = count / seconds


def archive(spark: "SparkSession", source: Source, place: Path) -> tuple[int | None, float]:
    """Rows and seconds."""
    from quiver_spark.jobs import archive as job

    begin = time.monotonic()
    summary = job.run(spark, source, place)
    seconds = time.monotonic() - begin
    shutil.rmtree(place)
    return summary.rows, seconds


def write_parquet(spark: "SparkSession", source: Source, place: Path) -> tuple[int | None, float]:
    begin = time.monotonic()
    spark.read.format("quiver").options(**source).load().write.parquet(str(place), compression="zstd")
    seconds = time.monotonic() - begin
    shutil.rmtree(place)
    return None, seconds


def _fill(address: str, topic: str, count: int, watch: Watch) -> None:
    values = _random_values(min(count, DISTINCT))
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            rows = min(CHUNK, count - start)
            producer.send_arrow(values.slice(start % values.num_rows, rows), partition=start // CHUNK % PARTITIONS)
        producer.flush()
        watch.stop()


def _random_values(count: int) -> pa.RecordBatch:
    data = pa.py_buffer(np.random.default_rng(count).bytes(count * SIZE))
    offsets = pa.py_buffer(np.arange(0, (count + 1) * SIZE, SIZE, dtype=np.int32))
    values = pa.Array.from_buffers(pa.binary(), count, [None, offsets, data])
    return pa.RecordBatch.from_arrays([values], ["value"])
