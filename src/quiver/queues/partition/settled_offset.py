"""How far a group has settled a partition without a gap, over what is decided and on disk. Looks, and no more."""

from collections.abc import Sequence

from quiver.partition.partition import Partition
from quiver.queues.partition.queue_group import QueueGroup
from quiver.queues.state.port import Run
from quiver.queues.state.unordered.state import UnorderedState


def settled_offset(group: QueueGroup, partition: Partition, synced_changes: int) -> int:
    """Everything below is settled. Levels that are read by themselves and have nothing more to read do not hold it
    back."""
    if group.is_in_order:
        settled = group.state.lowest_unsettled()
    else:
        settled = group.state.lowest_unsettled(
            newest=partition.committed.newest, end=partition.committed.high_watermark
        )
    return _held(group, settled, synced_changes)


def settled_with(group: QueueGroup, partition: Partition, synced_changes: int, runs: Sequence[Run]) -> int | None:
    """Where the settled offset is once these messages are settled; None if they are not at the front."""
    if not isinstance(group.state, UnorderedState):
        return None
    found = _held(group, group.state.lowest_unsettled_without(runs), synced_changes)
    return found if found > settled_offset(group, partition, synced_changes) else None


def _held(group: QueueGroup, settled: int, synced_changes: int) -> int:
    held = group.pending_acks.lowest(synced_changes)
    return settled if held is None else min(held, settled)
