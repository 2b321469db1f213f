"""Makes an archive of the classes that Spark loads: `python -m quiver_spark.runtime.make_class_archive PLACE`.

A session uses Spark as most programs do, and its JVM writes the archive when it ends. PLACE is its path without the
size. Runs at the lowest priority.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import quiver
from quiver_spark.runtime.class_archive import QUIET, SETTING, keep, remove_unused
from quiver_spark.runtime.session import JAVA_OPTIONS, java_options, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOWEST_PRIORITY = 19
_SECONDS = 600
_TOPIC = "orders"


def main(place: Path) -> int:
    os.nice(_LOWEST_PRIORITY)
    with tempfile.TemporaryDirectory(prefix="making-", dir=place.parent) as directory:
        made = Path(directory) / "classes.jsa"
        options = f"{java_options()} -XX:ArchiveClassesAtExit={made} {QUIET}"
        spark = session("quiver-classes", master="local[1]", **{JAVA_OPTIONS: options, SETTING: False})
        _use(spark, Path(directory))
        _end(spark)
        is_kept = keep(made, place)
    remove_unused(place.parent)
    return 0 if is_kept else 1


def _use(spark: "SparkSession", place: Path) -> None:
    with quiver.open(place / "data") as client:
        client.topics.create(_TOPIC)
        client.producer(_TOPIC).send_many([b'{"id": 1, "country": "FI"}'] * 10, [b"key"] * 10).result()
    source = spark.read.format("quiver").option("path", str(place / "data")).option("topic", _TOPIC)
    orders = source.load()
    orders.count()
    orders.groupBy("partition").count().collect()
    orders.where("key = 'key'").orderBy("offset").toArrow()
    source.option("valueSchema", "id BIGINT, country STRING").load().groupBy("value.country").sum("value.id").show()
    orders.drop("headers").write.parquet(str(place / "parquet"))
    spark.read.parquet(str(place / "parquet")).createOrReplaceTempView("stored")
    spark.sql("SELECT key, count(*), max(offset) FROM stored GROUP BY key").collect()
    stream = spark.readStream.format("quiver").option("path", str(place / "data")).option("topic", _TOPIC).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def _end(spark: "SparkSession") -> None:
    """Ends the JVM, which writes the archive meanwhile."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
