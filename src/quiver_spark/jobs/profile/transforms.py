"""Figures of messages and of their fields. Pure."""

from typing import TYPE_CHECKING

from quiver_spark.jobs.profile.field_rows import FIELD_COLUMNS, field_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARES = (0.5, 0.9, 0.99)
"""The percentiles of sizes."""
_ERROR = 0.02
"""How far estimates of different values usually are from them."""


def message_figures(frame: "DataFrame") -> "DataFrame":
    """A row for each partition, and one for all of them, whose partition is null."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.length("value"), f.lit(0))
    key_size = f.coalesce(f.length("key"), f.lit(0))
    return frame.rollup("partition").agg(
        f.count(f.lit(1)).alias("rows"),
        f.count("key").alias("with_key"),
        f.approx_count_distinct("key", _ERROR).alias("keys"),
        f.count_if(f.isnull("value")).alias("tombstones"),
        f.count("headers").alias("with_headers"),
        f.sum(size + key_size).alias("bytes"),
        f.percentile_approx(size, list(SHARES)).alias("value_bytes"),
        f.max(size).alias("largest_bytes"),
        f.min("timestamp").alias("first"),
        f.max("timestamp").alias("last"),
    )


def field_figures(frame: "DataFrame") -> "DataFrame":
    """A row for each column and type that it has; `distinct` is an estimate within a few per cent."""
    from pyspark.sql import functions as f

    rows = frame.select("key", "value", "headers", "priority").mapInArrow(field_rows, FIELD_COLUMNS)
    return rows.groupBy("column", "kind").agg(
        f.sum("count").alias("rows"),
        f.approx_count_distinct("digest", _ERROR).alias("distinct"),
        f.min("low").alias("low"),
        f.max("high").alias("high"),
        f.sum("bytes").alias("bytes"),
    )
