"""A snapshot in chunks: each with its length in front, so that it can be made and read one after the other. Pure."""

import struct
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct("<I")


def chunk(content: object) -> bytes:
    data = msgspec.msgpack.encode(content)
    return _LENGTH.pack(len(data)) + data


def chunks(data: bytes) -> Iterator[memoryview]:
    """What `chunk` encoded, still as MessagePack. Raises ValueError if the last one is cut off."""
    view, at = memoryview(data), 0
    while at < len(view):
        start = at + _LENGTH.size
        if start > len(view):
            raise ValueError("the last chunk of a snapshot is cut off")
        at = start + _LENGTH.unpack_from(view, start - _LENGTH.size)[0]
        if at > len(view):
            raise ValueError("the last chunk of a snapshot is cut off")
        yield view[start:at]
