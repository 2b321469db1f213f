"""How far a group has settled a partition without a gap."""

from quiver.delivery.group_state import LEVELS, GroupState
from quiver.delivery.partition_delivery import PartitionDelivery
from quiver.groups.table import Group


def settled_offset(delivery: PartitionDelivery, state: GroupState, group: Group) -> int:
    """Everything below is settled. Levels that have nothing more to read do not hold it back."""
    log, newest = delivery.partition.log, delivery.partition.newest
    if group.kind == "queue" and group.ordering == "none":
        for level in range(LEVELS):
            if newest[level] <= state.position(level) < log.readable_offset:
                state.feed(level, (), log.readable_offset)
    return state.lowest_unsettled()
