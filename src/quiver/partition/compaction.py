"""Compaction of a partition: what a pass may remove, and what is saved before."""

from quiver.model.topic import TopicConfig
from quiver.partition.partition import Partition
from quiver.storage.port import AbortedRange, Compacted, Compaction

DIRTY_RATIO = 0.5


def is_due(partition: Partition, config: TopicConfig, now_ms: int) -> bool:
    """Whether half of the closed part was never compacted, or tombstones there have been kept long enough."""
    if partition.log.failure is not None:
        return False
    dirt = partition.log.dirt(_compaction(partition, config, now_ms, end_offset=partition.committed.last_stable))
    return bool(dirt.dirty_bytes and dirt.ratio >= DIRTY_RATIO) or dirt.has_old_tombstones


async def compact(
    partition: Partition, config: TopicConfig, now_ms: int, *, roll: bool = False, dry_run: bool = False
) -> Compacted:
    """One pass; with `roll` the active segment is closed first and is part of it.

    Producers and transactions are saved first, because the pass removes frames that tell about them. An aborted
    transaction is forgotten one pass after its data is gone: markers stay as long as it is remembered, because
    readers that are told of an aborted transaction look for its marker.
    """
    if not dry_run:
        partition.tables.transactions.forget_below(partition.committed.aborted_gone_below)
        await partition.saved_state.save_now(roll=roll)
    end = (
        partition.committed.last_stable
        if dry_run
        else min(partition.committed.last_stable, partition.saved_state.offset)
    )
    done = await partition.log.compact(_compaction(partition, config, now_ms, end_offset=end, dry_run=dry_run))
    if not dry_run:
        partition.committed.aborted_gone_below = max(partition.committed.aborted_gone_below, done.aborted_below)
    return done


def _compaction(
    partition: Partition, config: TopicConfig, now_ms: int, *, end_offset: int, dry_run: bool = False
) -> Compaction:
    aborted = partition.tables.transactions.aborted_within(partition.log.start_offset, end_offset)
    return Compaction(
        end_offset=end_offset,
        now_ms=now_ms,
        tombstone_retention_ms=config.tombstone_retention_ms,
        aborted=tuple(AbortedRange(each.producer_id, each.first_offset, each.marker_offset) for each in aborted),
        max_span_ms=config.roll_after_ms if "delete" in config.cleanup else None,
        dry_run=dry_run,
    )
