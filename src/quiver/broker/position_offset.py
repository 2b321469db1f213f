"""Where a position is in a log now."""

from quiver.model.position import Position
from quiver.storage.port import Log


async def position_offset(log: Log, position: Position) -> int:
    """The offset that a position means, within what the log has."""
    first, last = log.start_offset, log.readable_offset
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
