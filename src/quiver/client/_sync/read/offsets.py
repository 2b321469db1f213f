# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Offsets for positions: earliest, latest, or the first at or after a time."""

from collections.abc import Mapping

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.model.errors import error_from_wire
from quiver.model.position import Position
from quiver.protocol.messages import ListOffsets, OffsetPart, Offsets


def find_offsets(
    broker: ReconnectingConnection,
    topic_id: int,
    positions: Mapping[int, Position],
    *,
    read_committed: bool = True,
    timeout: float | None = None,
) -> dict[int, int]:
    """The offset of each partition's position; raises the first error."""
    parts = [OffsetPart(topic_id, partition, position) for partition, position in positions.items()]
    answer = (broker.call(ListOffsets(parts, read_committed), timeout=timeout)).answer
    if not isinstance(answer, Offsets) or len(answer.offsets) != len(parts):
        raise unexpected(answer)
    for found in answer.offsets:
        if found.error is not None:
            raise error_from_wire(found.error.code, found.error.message, found.error.retryable)
    return {part.partition: found.offset for part, found in zip(parts, answer.offsets, strict=True)}
