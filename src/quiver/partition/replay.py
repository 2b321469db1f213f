"""What a log says about producers, transactions and message ids, read again at start-up."""

import asyncio
from collections.abc import Callable

from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import MIB
from quiver.partition.id_keys import IDS_IN_A_TURN, keys_in_turns
from quiver.partition.tables import StoredIds
from quiver.partition.transactions import Marker, read_marker
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame, split_frames
from quiver.storage.port import Log

_READ_BYTES = 4 * MIB


Record = Callable[[FrameHeader, Marker | None, StoredIds | None], None]
"""Gets every frame in order, with its content if it is a marker, and its ids if they were asked for."""


async def replay(log: Log, offset: int, record: Record, wants_ids: Callable[[FrameHeader], bool]) -> None:
    """From an offset up to the end. Damaged frames are skipped."""
    end = log.end_offset
    while offset < end:
        offset = await _replay(log, offset, end, record, wants_ids)


async def _replay(log: Log, offset: int, end: int, record: Record, wants_ids: Callable[[FrameHeader], bool]) -> int:
    """Records what one read returns; returns where to continue."""
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
    reached, since_turn = offset, 0
    try:
        for position, header in split_frames(data):
            ids = await _stored_ids(data, position) if wants_ids(header) else None
            since_turn += 0 if ids is None else len(ids.keys)
            if since_turn >= IDS_IN_A_TURN:
                since_turn = 0
                await asyncio.sleep(0)
            record(header, read_marker(data, position) if header.is_control else None, ids)
            reached = header.next_offset
    except InvalidFrame:
        if reached == offset:
            raise
    # A damaged frame after good ones begins the next read, which tells where the log continues after it.
    return reached


async def _stored_ids(data: bytes | memoryview, position: int) -> StoredIds | None:
    """None if the body is damaged."""
    try:
        frame = open_frame(data, position)
    except InvalidFrame:
        return None
    keys = await keys_in_turns(frame)
    return StoredIds(keys, frame.offsets())
