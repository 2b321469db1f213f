"""Where messages came from, by their headers. Pure.

A message says itself where it came from: a dead letter by its `dlq.` headers, any other message by the header
`quiver-lineage`. Messages of one trace (`traceparent`) that do not say so came, as far as anybody can tell, one after
the other.
"""

from typing import TYPE_CHECKING

from quiver_spark.lineage import LINEAGE_HEADER, header_text, place_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = ("topic", "partition", "offset", "append_time", "headers")
"""What is read of a message."""
_TRACE = r"^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}"
_NO_TRACE = "0" * 32


def steps(frame: "DataFrame") -> "DataFrame":
    """A row for each message that came from another: `origin` and `place` are topic/partition/offset, `by` says how
    that is known, `delay_ms` how much later it was stored, if the origin is among the messages."""
    from pyspark.sql import functions as f

    messages = _with_origin(frame)
    named = messages.where("origin IS NOT NULL").select("origin", "place", "by", "append_time")
    traced = _by_trace(messages)
    found = named.unionByName(traced)
    stored = messages.select(f.col("place").alias("origin"), f.col("append_time").alias("origin_time"))
    delay = f.unix_millis("append_time") - f.unix_millis("origin_time")
    return found.join(stored, "origin", "left").select(
        "origin", "place", "by", "append_time", delay.alias("delay_ms")
    )


def edges(found: "DataFrame") -> "DataFrame":
    """How many messages went from one topic to another, when, and how long that took."""
    from pyspark.sql import functions as f

    return (
        found.groupBy(_topic("origin").alias("source"), _topic("place").alias("target"), "by")
        .agg(
            f.count(f.lit(1)).alias("messages"),
            f.min("append_time").alias("first"),
            f.max("append_time").alias("last"),
            f.percentile_approx("delay_ms", [0.5, 0.99]).alias("delays_ms"),
        )
        .orderBy(f.col("messages").desc(), "source", "target")
    )


def _with_origin(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    dead = place_of(header_text("dlq.topic"), header_text("dlq.partition"), header_text("dlq.offset"))
    last = f.element_at(f.split(header_text(LINEAGE_HEADER), ","), -1)
    trace = f.regexp_extract(header_text("traceparent"), _TRACE, 1)
    return frame.select(
        place_of("topic", "partition", "offset").alias("place"),
        "append_time",
        f.coalesce(dead, last).alias("origin"),
        f.when(dead.isNotNull(), f.lit("dead letter")).otherwise(f.lit("lineage")).alias("by"),
        f.when((trace != "") & (trace != _NO_TRACE), trace).alias("trace"),
    )


def _by_trace(messages: "DataFrame") -> "DataFrame":
    """Messages of a trace without an origin: they came from the message of it that was stored before them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy("trace").orderBy("append_time", "place")
    chained = messages.where("trace IS NOT NULL").withColumn("before", f.lag("place").over(before))
    is_next = f.col("origin").isNull() & f.col("before").isNotNull() & (_topic("before") != _topic("place"))
    return chained.where(is_next).select(
        f.col("before").alias("origin"), "place", f.lit("trace").alias("by"), "append_time"
    )


def _topic(place: str) -> "Column":
    """The topic of a place."""
    from pyspark.sql import functions as f

    return f.substring_index(place, "/", 1)
