"""Requests and responses about compaction; tags from 90 and from 190 on."""

import msgspec

from quiver.protocol.message import Message


class CompactTopic(Message, tag=90, frozen=True):
    """Compacts now, the active segments included; with `dry_run` it only counts."""

    name: str
    partitions: list[int] | None = None
    """None means all of them."""
    dry_run: bool = False


CompactionRequest = CompactTopic


class CompactedPartition(msgspec.Struct, array_like=True, frozen=True):
    partition: int
    records_before: int
    records_after: int
    dirty_ratio: float
    """The share of bytes that had never been compacted."""


class CompactedTopic(Message, tag=190, frozen=True):
    records_before: int
    records_after: int
    dirty_ratio: float
    partitions: list[CompactedPartition]
    dry_run: bool


CompactionResponse = CompactedTopic
