"""The settings of a partition, and what of them its log needs."""

from typing import NamedTuple

from quiver.model.limits import Limits
from quiver.model.topic import TopicConfig
from quiver.partition.pending import BATCH_BYTES
from quiver.storage.port import LogOptions


def log_options(config: TopicConfig, *, is_schedule: bool = False) -> LogOptions:
    return LogOptions(
        durability=config.durability,
        segment_bytes=config.segment_bytes,
        roll_after_ms=config.roll_after_ms,
        buffers_publishes=not is_schedule,
        min_replicas=config.min_isr,
    )


class PartitionSettings(NamedTuple):
    """The settings of a partition. The topic's configuration and the limits may change later (`reconfigure`)."""

    config: TopicConfig
    limits: Limits
    message_batch_bytes: int = BATCH_BYTES
    """Single messages share frames of at most this size."""
    is_schedule: bool = False
    """Its log is a schedule log: messages with a delivery time, until they are due."""
