"""The frame header: 88 bytes in front of every frame, little endian, version 1.

Layout (docs/adr/0001-frame-format.md). The broker stamps bytes 8 to 31; the producer sets all others, and its
checksum covers exactly those and the body, so that it stays valid from the producer to the last reader.

      0  magic "QV"            32  length                48  producer id        84  attributes
      2  version               36  uncompressed length   56  producer epoch     86  columns
      3  priority              40  record count          60  base sequence      88  body
      4  body crc32c           44  last offset delta     64  min timestamp
      8  base offset                                     72  max timestamp
     16  leader epoch                                    80  schema id
     20  header crc32c
     24  append time
"""

import struct
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from quiver.model.errors import InvalidFrame

MAGIC = b"QV"
VERSION = 1
HEADER_BYTES = 88
ALIGNMENT = 8

NO_PRODUCER = -1

# attributes: bits 0-1 compression, 2 transactional, 3 control, 4 encrypted, 5-7 body encoding, 8-10 padding bytes,
# 11 sampled
COMPRESSION_MASK = 0b11
COMPRESSION_NONE, COMPRESSION_LZ4, COMPRESSION_ZSTD = 0, 1, 2
COMPRESSION_CODES = {"none": COMPRESSION_NONE, "lz4": COMPRESSION_LZ4, "zstd": COMPRESSION_ZSTD}
COMPRESSION_NAMES = {code: name for name, code in COMPRESSION_CODES.items()}
TRANSACTIONAL = 1 << 2
CONTROL = 1 << 3
ENCRYPTED = 1 << 4
ENCODING_SHIFT, ENCODING_MASK = 5, 0b111
ENCODING_ARROW = 0
PADDING_SHIFT, PADDING_MASK = 8, 0b111
SAMPLED = 1 << 11
KNOWN_ATTRIBUTES = 0b0000_1111_1111_1111

# columns: which optional columns the body has; `value` is always there
COLUMN_KEY = 1 << 0
COLUMN_TIMESTAMP = 1 << 1
COLUMN_HEADERS = 1 << 2
COLUMN_DELIVER_AT = 1 << 3
COLUMN_EXPIRES_AT = 1 << 4
COLUMN_ID = 1 << 5
COLUMN_OFFSET_DELTA = 1 << 6
KNOWN_COLUMNS = 0b0111_1111

_HEADER = struct.Struct("<2sBBIqiIqIIIIqiiqqIHH")
_PLACE = struct.Struct("<qi")
_CRC = struct.Struct("<I")
_TIME = struct.Struct("<q")
_new_tuple = tuple.__new__
"""Makes a named tuple from a tuple of its fields, in a third of the time of `_make`."""
assert _HEADER.size == HEADER_BYTES
pack_header_fields = _HEADER.pack
"""Magic, version, and the fields of a FrameHeader, one after the other."""


class FrameHeader(NamedTuple):
    """The fields in the order of the bytes (magic and version are checked on reading and left out)."""

    priority: int
    body_crc: int
    base_offset: int
    leader_epoch: int
    header_crc: int
    append_time_ms: int
    length: int
    """Bytes of the body as stored, padding included."""
    uncompressed_length: int
    """Bytes of the body before compression, padding left out; checked before anything is allocated."""
    record_count: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    schema_id: int
    attributes: int
    columns: int

    @property
    def frame_bytes(self) -> int:
        return HEADER_BYTES + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def padding(self) -> int:
        return (self.attributes >> PADDING_SHIFT) & PADDING_MASK

    @property
    def encoding(self) -> int:
        return (self.attributes >> ENCODING_SHIFT) & ENCODING_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def message_count(self) -> int:
        """Messages for readers: a control frame has none."""
        return 0 if self.is_control else self.record_count

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def pack_header(header: FrameHeader) -> bytearray:
    """The 88 bytes of a header, as its fields say (checksums included)."""
    return bytearray(_HEADER.pack(MAGIC, VERSION, *header))


def unpack_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> FrameHeader:
    """Reads a header without checking its checksums. Raises InvalidFrame if it cannot be one at all."""
    if len(buffer) - position < HEADER_BYTES:
        raise InvalidFrame(problem=f"a frame has at least {HEADER_BYTES} bytes")
    fields = _HEADER.unpack_from(buffer, position)
    if fields[0] != MAGIC:
        raise InvalidFrame(problem="it does not begin with QV")
    if fields[1] != VERSION:
        raise InvalidFrame(problem=f"frame version {fields[1]} is not known, only {VERSION}")
    return _new_tuple(FrameHeader, fields[2:])


def header_crc(header: bytes | bytearray | memoryview) -> int:
    """The checksum over the whole header, without its own field."""
    data = bytes(header[:HEADER_BYTES])
    return int(google_crc32c.value(data[:20] + data[24:]))


def body_crc(header: bytes | bytearray | memoryview, body: bytes | bytearray | memoryview) -> int:
    """The producer's checksum: over every header field that it sets, and the body."""
    data = bytes(header[:HEADER_BYTES])
    crc = google_crc32c.value(data[:4] + data[32:])
    # google_crc32c takes bytes, or a buffer that needs no release: a memoryview goes in as an Arrow buffer, uncopied.
    return int(google_crc32c.extend(crc, body if isinstance(body, bytes) else pa.py_buffer(body)))


def read_stamped_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> FrameHeader:
    """Reads the header of a stored frame and checks the header checksum. Raises InvalidFrame if it is bad."""
    header = unpack_header(buffer, position)
    if header_crc(memoryview(buffer)[position : position + HEADER_BYTES]) != header.header_crc:
        raise InvalidFrame(problem="the header checksum does not match")
    return header


class StampedFrame(NamedTuple):
    """A frame with its offset: what `Log.append` takes."""

    header: FrameHeader
    header_bytes: bytes | bytearray | memoryview
    body: bytes | bytearray | memoryview


def stamp(
    frame: bytes | bytearray | memoryview,
    header: FrameHeader,
    *,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int,
) -> StampedFrame:
    """Gives a checked frame its offset, epoch and time. The body is not copied and `frame` stays as it is."""
    view = memoryview(frame)
    given = bytes(view[:HEADER_BYTES])
    before = given[:8] + _PLACE.pack(base_offset, leader_epoch)
    after = _TIME.pack(append_time_ms) + given[32:]
    crc = google_crc32c.value(before + after)
    fields = (*header[:2], base_offset, leader_epoch, crc, append_time_ms, *header[6:])
    stamped = before + _CRC.pack(crc) + after
    return StampedFrame(_new_tuple(FrameHeader, fields), stamped, view[HEADER_BYTES:])
