"""What a log says about producers and transactions, read again at start-up."""

from collections.abc import Callable

from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import MIB
from quiver.partition.transactions import Marker, read_marker
from quiver.records.header import FrameHeader
from quiver.records.read import split_frames
from quiver.storage.port import Log

_READ_BYTES = 4 * MIB

Record = Callable[[FrameHeader, Marker | None], None]
"""Gets every frame in order, and what it says if it is a marker."""


async def replay(log: Log, offset: int, record: Record) -> None:
    """From an offset up to the end. Damaged frames are stepped over."""
    end = log.end_offset
    while offset < end:
        offset = await _replay(log, offset, end, record)


async def _replay(log: Log, offset: int, end: int, record: Record) -> int:
    """Records what one read gives; returns where to go on."""
    try:
        part = await log.read(offset, max_bytes=_READ_BYTES, end_offset=end)
    except CorruptData as damage:
        return max(offset + 1, int(damage.details["next_offset"]))
    if part is None:
        return end
    try:
        data = await part.read()
    finally:
        part.release()
    reached = offset
    try:
        for position, header in split_frames(data):
            record(header, read_marker(data, position) if header.is_control else None)
            reached = header.next_offset
    except InvalidFrame:
        if reached == offset:
            raise
    # A bad frame behind good ones is the first of the next read, which says where the log goes on behind it.
    return reached
