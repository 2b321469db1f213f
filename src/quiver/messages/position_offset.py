"""Where a position is in a partition now, for readers of committed messages."""

from quiver.model.position import Position
from quiver.partition.partition import Partition


async def position_offset(partition: Partition, position: Position) -> int:
    """The offset that a position means, within what the log has."""
    log = partition.log
    first, last = log.start_offset, partition.committed.last_stable
    match position.kind:
        case "earliest":
            return first
        case "latest":
            return last
        case "offset":
            wanted = position.value
        case "time":
            wanted = await log.offset_for_time(position.value)
    return min(max(wanted, first), last)
