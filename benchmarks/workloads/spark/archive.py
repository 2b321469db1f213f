"""Archiving a topic into a lake on two cores: into a directory, into an S3-compatible store on the same machine, and
against Spark's own Parquet writer from the same source.

The values do not compress. Everything runs once before the time does, so that the JVM and the Python
workers are warm; each run archives the whole topic into an empty lake, which is on disk when it ends.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import quiver
from benchmarks.roles import Role, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.object_store import BUCKET, ObjectStore, missing_object_store
from benchmarks.servers.server import cpu_seconds
from benchmarks.workloads.messages.filling import fill_distinct
from benchmarks.workloads.spark.process import SparkProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 100
FULL_MESSAGES = 10_000_000
PARTITIONS = 8

Source = dict[str, str]


def measure_spark_archive(run: Run) -> None:
    if shutil.which("java") is None:
        run.skip("quiver spark-archive", "no Java")
        return
    count = run.scale.count(FULL_MESSAGES)
    with Broker(run.scratch / "spark-archive") as broker, SparkProcess() as spark:
        with quiver.connect(broker.address) as client:
            client.topics.create("archived", partitions=PARTITIONS)
        run_roles({"fill": Role(fill_distinct, (broker.address, "archived", count, SIZE, PARTITIONS))}, timeout=600)
        sources = {
            "through the broker": {"topic": "archived", "bootstrap": broker.address, "localFiles": "false"},
            "of segment files": {"topic": "archived", "path": str(broker.data_dir)},
        }
        place = run.scratch / "spark-archive-lake"
        works: dict[str, Any] = {"archive": archive, "Spark's Parquet writer": write_parquet}
        for work in works.values():
            spark.run(work, sources["of segment files"], place)
        with contextlib.ExitStack() as stack:
            store = None
            if (reason := missing_object_store()) is None:
                store = stack.enter_context(ObjectStore(run.scratch / "spark-archive-store"))
                works["archive to an object store"] = partial(archive_to_store, store.settings(), store.directory)
                spark.run(works["archive to an object store"], sources["of segment files"], place)
            else:
                run.skip("quiver spark-archive to an object store", reason)
            processes = {"spark": spark.pid, "broker": broker.pid} | ({"store": store.pid} if store else {})
            for _ in run.few_repetitions():
                for name, work in works.items():
                    for where, source in sources.items():
                        _measure(run, processes, f"{name} {where}", partial(spark.run, work, source, place), count)


def _measure(run: Run, processes: dict[str, int], detail: str, work: Callable[[], Any], count: int) -> None:
    """Processor time is kept apart: that of the store would come from another machine."""
    pids = list(processes.values())
    with run.measuring("quiver", "spark-archive", size=SIZE, detail=detail, server_pids=pids) as metrics:
        before = {name: cpu_seconds([pid]) for name, pid in processes.items()}
        rows, seconds = work()
        if rows not in (None, count):
            raise AssertionError(f"{rows} of {count} rows are there")
        metrics["rate"] = count / seconds
        metrics |= {f"{name}_cpu_s": cpu_seconds([pid]) - before[name] for name, pid in processes.items()}


def archive(spark: "SparkSession", source: Source, place: Path) -> tuple[int | None, float]:
    """Rows and seconds."""
    from quiver_spark.jobs import archive as job

    begin = time.monotonic()
    summary = job.run(spark, source, place)
    seconds = time.monotonic() - begin
    shutil.rmtree(place)
    return summary.rows, seconds


def archive_to_store(
    settings: dict[str, str], directory: Path, spark: "SparkSession", source: Source, place: Path
) -> tuple[int | None, float]:
    """The same into a lake in an S3-compatible store on this machine; `directory` is where the store keeps it."""
    from quiver_spark.jobs import archive as job

    os.environ.update(settings)
    name = f"{place.name}-{time.monotonic_ns()}"  # the store remembers directories that were removed under it
    begin = time.monotonic()
    summary = job.run(spark, source, f"s3://{BUCKET}/{name}")
    seconds = time.monotonic() - begin
    shutil.rmtree(directory / BUCKET / name)
    return summary.rows, seconds


def write_parquet(spark: "SparkSession", source: Source, place: Path) -> tuple[int | None, float]:
    begin = time.monotonic()
    spark.read.format("quiver").options(**source).load().write.parquet(str(place), compression="zstd")
    seconds = time.monotonic() - begin
    shutil.rmtree(place)
    return None, seconds
