"""Looks for one frame in a log, by its header or by what it holds; in slices, decoded in a thread."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from quiver.model.errors import CorruptData, InvalidFrame, OffsetOutOfRange
from quiver.model.limits import KIB
from quiver.records.header import FrameHeader
from quiver.records.read import split_frames
from quiver.storage.port import Log

T = TypeVar("T")

_SLICE_BYTES = 256 * KIB


async def find_frame(
    log: Log,
    start: int,
    choose: Callable[[bytes | memoryview, int, FrameHeader], T | None],
    *,
    end: int,
    max_bytes: int,
) -> T | None:
    """What `choose` makes of the first frame that it wants, from an offset on; None if none is within the bytes.

    It gets the bytes, a position in them and the header. Damaged frames are skipped.
    """
    position, left = max(start, log.start_offset), max_bytes
    while position < end and left > 0:
        try:
            found = await log.read(position, max_bytes=_SLICE_BYTES, end_offset=end)
        except CorruptData as damage:
            position = max(position + 1, int(damage.details["next_offset"]))
            continue
        except OffsetOutOfRange:
            if position >= log.start_offset:
                return None
            position = log.start_offset
            continue
        if found is None:
            return None
        try:
            data = await found.read()
        finally:
            found.release()
        chosen, following = await asyncio.to_thread(partial(_choose, data, position, choose))
        if chosen is not None:
            return chosen
        position, left = max(following, position + 1), left - len(data)
    return None


def _choose(
    data: bytes | memoryview, following: int, choose: Callable[[bytes | memoryview, int, FrameHeader], T | None]
) -> tuple[T | None, int]:
    """And where to go on."""
    try:
        for position, header in split_frames(data):
            following = header.next_offset
            chosen = choose(data, position, header)
            if chosen is not None:
                return chosen, following
    except InvalidFrame:  # a damaged header begins the next read: the log says where it goes on
        pass
    return None, following
