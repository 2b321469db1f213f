"""How far a group has settled a partition without a gap."""

from quiver.delivery.group_state import GroupState
from quiver.groups.table import Group
from quiver.partition.partition import Partition


def settled_offset(partition: Partition, state: GroupState, group: Group) -> int:
    """Everything below is settled. Levels that have nothing more to read do not hold it back. Looks, and no more."""
    if group.kind == "queue" and group.ordering == "none":
        return state.lowest_unsettled(newest=partition.newest, end=partition.high_watermark)
    return state.lowest_unsettled()
