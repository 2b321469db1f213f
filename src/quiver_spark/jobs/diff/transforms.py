"""Two frames of messages compared. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver_spark.jobs.compact.transforms import last_by_key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BY = {"content": ("digest",), "offset": ("partition", "offset"), "key": ("key",)}
"""What makes two messages the same one, by the name of the way to compare."""
COMPARED = ("key", "value", "headers", "timestamp", "priority")
DEFAULT_COMPARED = ("key", "value", "headers")
OUTCOMES = ("same", "different", "only_left", "only_right")
_PLACE = ("topic", "partition", "offset")


def matched(left: "DataFrame", right: "DataFrame", by: str, columns: Sequence[str]) -> "DataFrame":
    """A row for each message of either side: how many are in both and the same, in both and different, in one only.

    Also the place of the first of them on each side. By content, equal messages are counted: two on the left and one
    on the right are one in common and one on the left only. By key, the last message of each key is compared.
    """
    from pyspark.sql import functions as f

    if by == "key":
        left, right = last_by_key(left, keep_tombstones=True), last_by_key(right, keep_tombstones=True)
    sides = _side(left, "left", columns).unionByName(_side(right, "right", columns))
    counts = [f.sum(f.when(f.col("side") == side, 1).otherwise(0)).alias(side) for side in ("left", "right")]
    digests = [
        f.max(f.when(f.col("side") == side, f.col("digest"))).alias(f"{side}_is") for side in ("left", "right")
    ]
    places = [f.min(f.when(f.col("side") == side, f.col("place"))).alias(f"{side}_at") for side in ("left", "right")]
    grouped = sides.groupBy(*BY[by]).agg(*counts, *digests, *places)
    both, is_equal = f.least("left", "right"), f.col("left_is") == f.col("right_is")
    return grouped.select(
        f.when(is_equal, both).otherwise(0).alias("same"),
        f.when(is_equal, 0).otherwise(both).alias("different"),
        (f.col("left") - both).alias("only_left"),
        (f.col("right") - both).alias("only_right"),
        "left_at",
        "right_at",
    )


def counted(rows: "DataFrame") -> "DataFrame":
    """One row: how many messages there are of each outcome."""
    from pyspark.sql import functions as f

    return rows.agg(*(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in OUTCOMES))


def differences(rows: "DataFrame", most: int) -> "DataFrame":
    """The first of those that are not the same, by place."""
    return rows.where("different + only_left + only_right > 0").orderBy("left_at", "right_at").limit(most)


def _side(frame: "DataFrame", name: str, columns: Sequence[str]) -> "DataFrame":
    from pyspark.sql import functions as f

    rows = frame.select("partition", "offset", "key", f.struct(*_PLACE).alias("place"), _digest(columns))
    return rows.withColumn("side", f.lit(name))


def _digest(columns: Sequence[str]) -> "Column":
    """Equal where the columns are. Headers are in no order, and no headers are the same as empty ones."""
    from pyspark.sql import functions as f

    parts = [f.array_sort(f.map_entries("headers")) if name == "headers" else f.col(name) for name in columns]
    empty = [f.when(f.size(part) > 0, part) if name == "headers" else part
             for name, part in zip(columns, parts, strict=True)]  # fmt: skip
    named = [part.alias(name) for name, part in zip(columns, empty, strict=True)]
    return f.sha2(f.to_json(f.struct(*named)), 256).alias("digest")
