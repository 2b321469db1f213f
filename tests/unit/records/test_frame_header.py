"""The header: its checksums, and the stamp of the broker."""

import pytest

from quiver.model.errors import InvalidFrame
from quiver.records.build import build_frame
from quiver.records.header import (
    HEADER_BYTES,
    body_crc,
    header_crc,
    pack_header,
    read_stamped_header,
    stamp,
    unpack_header,
)

FRAME = build_frame([b"a", b"b"], timestamp_ms=5)


def test_packing_and_unpacking_are_inverse() -> None:
    header = unpack_header(FRAME)
    assert bytes(pack_header(header)) == FRAME[:HEADER_BYTES]
    assert unpack_header(b"12345" + FRAME, 5) == header


def test_the_stamp_leaves_the_frame_and_its_body_checksum_alone() -> None:
    frame = bytearray(FRAME)
    done = stamp(frame, unpack_header(frame), base_offset=2**62, leader_epoch=2**31 - 1, append_time_ms=2**53)
    assert frame == FRAME
    assert unpack_header(done.header_bytes) == done.header
    assert read_stamped_header(done.header_bytes) == done.header
    assert body_crc(done.header_bytes, done.body) == done.header.body_crc == body_crc(FRAME, FRAME[HEADER_BYTES:])
    assert (done.header.base_offset, done.header.last_offset, done.header.next_offset) == (
        2**62,
        2**62 + 1,
        2**62 + 2,
    )


def test_the_body_is_not_copied() -> None:
    frame = bytearray(FRAME)
    done = stamp(frame, unpack_header(frame), base_offset=1, leader_epoch=1, append_time_ms=1)
    assert done.body.obj is frame


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_checksums_take_any_kind_of_buffer(kind: type) -> None:
    body = FRAME[HEADER_BYTES:]
    assert body_crc(kind(FRAME), kind(body)) == unpack_header(FRAME).body_crc
    assert header_crc(kind(FRAME)) == header_crc(FRAME[:HEADER_BYTES])


def test_every_flipped_bit_of_a_stamped_header_is_seen() -> None:
    done = stamp(FRAME, unpack_header(FRAME), base_offset=7, leader_epoch=1, append_time_ms=9)
    for place in range(HEADER_BYTES):
        for bit in range(8):
            damaged = bytearray(done.header_bytes)
            damaged[place] ^= 1 << bit
            with pytest.raises(InvalidFrame):
                read_stamped_header(damaged)
