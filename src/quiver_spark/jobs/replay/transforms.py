"""From rows of messages to rows that the sink writes. Pure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT = ("key", "value", "headers", "timestamp", "priority")


def messages(frame: "DataFrame", *, with_partition: bool = False) -> "DataFrame":
    """What a message keeps when it is written again."""
    return frame.select(*KEPT, "partition") if with_partition else frame.select(*KEPT)


def ordered(frame: "DataFrame") -> "DataFrame":
    """Each partition in one task, in order: messages of one key come in the order they had."""
    return frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
