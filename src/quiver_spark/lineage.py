"""The header that says where a message was before: `quiver-lineage: orders/0/17,orders-eu/2/5`, the oldest first.

Jobs that write messages of a topic to another one add the place of each: `replay --lineage`, and your own with
`with_lineage`. The job `lineage` reads it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LINEAGE_HEADER = "quiver-lineage"


def with_lineage(frame: "DataFrame") -> "DataFrame":
    """The rows of a topic with their own place added to the header, for a write to another topic."""
    from pyspark.sql import functions as f

    known = f.coalesce(f.col("headers"), f.expr("map()").cast("map<string,binary>"))
    places = f.concat_ws(",", header_text(LINEAGE_HEADER), place_of("topic", "partition", "offset"))
    others = f.map_filter(known, lambda name, _: name != LINEAGE_HEADER)
    added = f.create_map(f.lit(LINEAGE_HEADER), places.cast("binary"))
    return frame.withColumn("headers", f.map_concat(others, added))


def header_text(name: str) -> "Column":
    """A header as text; null if there is none."""
    from pyspark.sql import functions as f

    return f.col("headers")[name].cast("string")


def place_of(topic: "Column | str", partition: "Column | str", offset: "Column | str") -> "Column":
    """topic/partition/offset; null if one of them is."""
    from pyspark.sql import functions as f

    parts = [f.col(part) if isinstance(part, str) else part for part in (topic, partition, offset)]
    return f.concat(parts[0], f.lit("/"), parts[1].cast("string"), f.lit("/"), parts[2].cast("string"))
