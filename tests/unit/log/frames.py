"""Frames for tests of the log, which never opens bodies: any bytes will do."""

from quiver.records.header import FrameHeader, StampedFrame, body_crc, pack_header, stamp


def frame_at(
    offset: int,
    *,
    count: int = 1,
    body: bytes = b"",
    epoch: int = 1,
    time_ms: int = 1_000,
    timestamp_ms: int | None = None,
    priority: int = 2,
) -> StampedFrame:
    """A stamped frame of `count` messages at an offset."""
    body = body + bytes(-len(body) % 8)
    fields = FrameHeader(
        priority=priority,
        body_crc=0,
        base_offset=0,
        leader_epoch=0,
        header_crc=0,
        append_time_ms=0,
        length=len(body),
        uncompressed_length=len(body),
        record_count=count,
        last_offset_delta=count - 1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        min_timestamp_ms=time_ms if timestamp_ms is None else timestamp_ms,
        max_timestamp_ms=time_ms if timestamp_ms is None else timestamp_ms,
        schema_id=0,
        attributes=0,
        columns=0,
    )
    header = fields._replace(body_crc=body_crc(pack_header(fields), body))
    return stamp(
        bytes(pack_header(header)) + body, header, base_offset=offset, leader_epoch=epoch, append_time_ms=time_ms
    )


def frame_bytes(frame: StampedFrame) -> bytes:
    return bytes(frame.header_bytes) + bytes(frame.body)
