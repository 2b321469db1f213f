"""The bytes of the write-ahead log (docs/adr/0016-one-sync-for-many-logs.md). Pure.

A file begins with a header that has its number. A record: CRC-32C (u32) of what follows, size of what follows (u32),
number of the file (u64), kind (u8), length of the log's id (u16), base offset of the segment (i64), position in it
(i64), the id, the bytes. Little endian. Numbers make records of an earlier use of the file invalid.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import google_crc32c

from quiver.system.files import Buffer

FRAMES = 1
FORGET = 2
"""Earlier records of the log, or of all logs below a directory of log ids, do not count."""

_HEADER = struct.Struct("<8sQ")
HEADER_BYTES = _HEADER.size
_MAGIC = b"QVWAL\0\0\1"
_CRC = struct.Struct("<I")
_REST = struct.Struct("<IQBHqq")
_PREFIX_BYTES = _CRC.size + _REST.size


class WalRecord(NamedTuple):
    kind: int
    log_id: str
    segment_base: int
    position: int
    data: memoryview


def file_header(number: int) -> bytes:
    return _HEADER.pack(_MAGIC, number)


def encode(
    number: int, kind: int, log_id: bytes, segment_base: int = 0, position: int = 0, data: Sequence[Buffer] = ()
) -> bytes:
    rest_size = _REST.size + len(log_id) + sum(map(len, data))
    rest = b"".join((_REST.pack(rest_size, number, kind, len(log_id), segment_base, position), log_id, *data))
    return _CRC.pack(google_crc32c.value(rest)) + rest


def read_records(content: memoryview, number: int) -> Iterator[WalRecord]:
    """The records of a file, up to the first that is not whole."""
    if len(content) < HEADER_BYTES or _HEADER.unpack_from(content) != (_MAGIC, number):
        return
    position = HEADER_BYTES
    while position + _PREFIX_BYTES <= len(content):
        (crc,) = _CRC.unpack_from(content, position)
        size, of_file, kind, id_length, base, segment_position = _REST.unpack_from(content, position + _CRC.size)
        begin = position + _CRC.size
        end = begin + size
        if of_file != number or size < _REST.size + id_length or end > len(content):
            return
        if google_crc32c.value(bytes(content[begin:end])) != crc:
            return
        data = begin + _REST.size + id_length
        log_id = bytes(content[begin + _REST.size : data]).decode()
        yield WalRecord(kind, log_id, base, segment_position, content[data:end])
        position = end
