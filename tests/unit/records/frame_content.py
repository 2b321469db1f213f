"""The way of a frame through a broker, and what must be in it at the end."""

import struct
from typing import Any

from quiver.model.limits import Limits
from quiver.records.check import check_frame
from quiver.records.header import HEADER_BYTES, FrameHeader, body_crc, pack_header, stamp, unpack_header
from quiver.records.read import OpenFrame, open_frame


def through_the_broker(frame: bytes, base_offset: int = 0) -> OpenFrame:
    """The frame after entry check and stamp, opened somewhere inside a larger buffer."""
    header = check_frame(frame, Limits())
    done = stamp(frame, header, base_offset=base_offset, leader_epoch=1, append_time_ms=2)
    opened = open_frame(bytes(8) + bytes(done.header_bytes) + bytes(done.body), 8)
    assert opened.header == done.header
    return opened


def stored(frame: bytes, base_offset: int = 0) -> bytes:
    """The frame as it lies in a log, without any check."""
    done = stamp(frame, unpack_header(frame), base_offset=base_offset, leader_epoch=1, append_time_ms=2)
    return bytes(done.header_bytes) + bytes(done.body)


def sealed(header: FrameHeader, body: bytes) -> bytes:
    """A frame with a body checksum that matches, whatever the header says."""
    packed = pack_header(header)
    struct.pack_into("<I", packed, 4, body_crc(packed, body))
    return bytes(packed) + body


def changed(frame: bytes, **fields: Any) -> bytes:
    """The frame with other header fields and a checksum that matches."""
    return sealed(unpack_header(frame)._replace(**fields), frame[HEADER_BYTES:])


def assert_holds(opened: OpenFrame, arguments: dict[str, Any]) -> None:
    """The frame says what the arguments of `build_frame` said."""
    count = len(arguments["values"])
    nothing = [None] * count
    assert opened.values() == arguments["values"]
    assert opened.keys() == arguments.get("keys", nothing)
    assert opened.timestamps() == arguments.get("timestamps_ms", [arguments.get("timestamp_ms")] * count)
    assert opened.headers() == [headers or {} for headers in arguments.get("headers", nothing)]
    assert opened.deliver_at_ms() == arguments.get("deliver_at_ms", nothing)
    assert opened.expires_at_ms() == arguments.get("expires_at_ms", nothing)
    assert opened.ids() == arguments.get("ids", nothing)
