"""Frames with one number each, and what logs have of them."""

from quiver.records.header import (
    HEADER_BYTES,
    FrameHeader,
    StampedFrame,
    body_crc,
    pack_header,
    read_stamped_header,
    stamp,
)
from quiver.storage.port import Log


def new_frame(offset: int, epoch: int, time_ms: int, value: int) -> StampedFrame:
    body = b"%-104d" % value
    header = FrameHeader(2, 0, 0, 0, 0, 0, len(body), len(body), 1, 0, -1, -1, -1, time_ms, time_ms, 0, 0, 0)
    header = header._replace(body_crc=body_crc(pack_header(header), body))
    given = bytes(pack_header(header)) + body
    return stamp(given, header, base_offset=offset, leader_epoch=epoch, append_time_ms=time_ms)


async def stored_values(log: Log, end_offset: int, *, from_offset: int = 0) -> list[tuple[int, bytes]]:
    """Offset and frame of everything below an end."""
    found: list[tuple[int, bytes]] = []
    offset = max(log.start_offset, from_offset)
    while offset < end_offset:
        piece = await log.read(offset, max_bytes=64 * 1024, end_offset=end_offset)
        if piece is None:
            break
        data, position = bytes(await piece.read()), 0
        piece.release()
        while position + HEADER_BYTES <= len(data):
            header = read_stamped_header(data, position)
            if position + header.frame_bytes > len(data):
                break
            if header.base_offset >= from_offset:
                found.append((header.base_offset, data[position : position + header.frame_bytes]))
            position, offset = position + header.frame_bytes, header.next_offset
    return found


def value_of(frame: bytes) -> int:
    return int(frame[HEADER_BYTES:])
