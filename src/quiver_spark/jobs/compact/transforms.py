"""The last message of each key. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def last_by_key(frame: "DataFrame", *, keep_tombstones: bool = False) -> "DataFrame":
    """One row per key with the columns of the source; messages without a key are left out.

    Within a partition the highest offset is last. A key that is in several (partitions were added) has its last
    message where the broker stored one last.
    """
    from pyspark.sql.functions import col, max_by, struct

    others = [name for name in frame.columns if name != "key"]
    by_partition = (
        frame.where("key IS NOT NULL")
        .groupBy("key", "partition")
        .agg(max_by(struct(*others), col("offset")).alias("last"))
    )
    order = struct(col("last.append_time"), col("partition"))
    winners = by_partition.groupBy("key").agg(max_by(col("last"), order).alias("last"))
    rows = winners.select(*(col("key") if name == "key" else col(f"last.{name}") for name in frame.columns))
    return rows if keep_tombstones else rows.where("value IS NOT NULL")
