"""Offsets for positions (earliest, latest, or the first at or after a time), and offsets that a user gives."""

from collections.abc import Iterable, Mapping

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.model.errors import InvalidRequest, PartitionNotFound, error_from_wire
from quiver.model.position import Position
from quiver.protocol.messages import ListOffsets, OffsetPart, Offsets


async def find_offsets(
    broker: AsyncReconnectingConnection,
    topic_id: int,
    positions: Mapping[int, Position],
    *,
    read_committed: bool = True,
    timeout: float | None = None,
) -> dict[int, int]:
    """The offset of each partition's position; raises the first error."""
    parts = [OffsetPart(topic_id, partition, position) for partition, position in positions.items()]
    answer = (await broker.call(ListOffsets(parts, read_committed), timeout=timeout)).answer
    if not isinstance(answer, Offsets) or len(answer.offsets) != len(parts):
        raise unexpected(answer)
    for found in answer.offsets:
        if found.error is not None:
            raise error_from_wire(found.error.code, found.error.message, found.error.retryable)
    return {part.partition: found.offset for part, found in zip(parts, answer.offsets, strict=True)}


async def offsets_at(
    broker: AsyncReconnectingConnection,
    topic: str,
    position: Position,
    partitions: Iterable[int] | None,
    *,
    read_committed: bool,
) -> dict[int, int]:
    """The same for a topic by name; without `partitions`, in all of them."""
    info = await broker.topic(topic)
    numbers = list(range(info.partitions) if partitions is None else partitions)
    for number in numbers:
        if not 0 <= number < info.partitions:
            raise PartitionNotFound(topic=topic, count=info.partitions, partition=number)
    if not numbers:
        return {}
    return await find_offsets(broker, info.id, dict.fromkeys(numbers, position), read_committed=read_committed)


async def next_offsets(
    broker: AsyncReconnectingConnection, offsets: Mapping[str, Mapping[int, int]]
) -> dict[tuple[int, int], int]:
    """A user's offsets by topic id and partition. Raises TopicNotFound, PartitionNotFound or InvalidRequest."""
    found: dict[tuple[int, int], int] = {}
    for topic, parts in offsets.items():
        info = await broker.topic(topic)
        for partition, offset in parts.items():
            if not 0 <= partition < info.partitions:
                raise PartitionNotFound(topic=topic, count=info.partitions, partition=partition)
            if offset < 0:
                raise InvalidRequest(problem=f"offset {offset} must be 0 or more")
            found[info.id, partition] = offset
    return found
