"""Stored frames of a partition, and which of them readers must not see."""

from typing import NamedTuple

from quiver.model.errors import OffsetOutOfRange
from quiver.partition.partition import Partition


class StoredSlice(NamedTuple):
    position: int
    """The first offset that is wanted; the first frame may begin before it."""
    data: bytes | memoryview
    hidden: frozenset[int]
    """Base offsets of frames whose transactions were aborted."""


async def read_slice(
    partition: Partition,
    position: int,
    *,
    max_bytes: int,
    end_offset: int | None = None,
    read_committed: bool = True,
) -> StoredSlice | None:
    """The frames from a position on, or from the start of the log if that has moved beyond; None after the last.

    Raises CorruptData if the frame at the position is damaged.
    """
    log, committed = partition.log, partition.committed
    while True:
        position = max(position, log.start_offset)
        if end_offset is not None and position >= end_offset:
            return None
        compacted = committed.aborted_gone_below
        try:
            found = await log.read(position, max_bytes=max_bytes, end_offset=end_offset)
        except OffsetOutOfRange:
            if position >= log.start_offset:
                raise
            continue  # its segment was removed meanwhile
        if found is None:
            return None
        try:
            data = await found.read()
        finally:
            found.release()
        if committed.aborted_gone_below != compacted or position < log.start_offset:
            continue  # the aborts in these bytes may be forgotten meanwhile: read again, unless they are gone
        hidden = committed.hidden_frames(data, position) if read_committed else frozenset()
        return StoredSlice(position, data, hidden)
