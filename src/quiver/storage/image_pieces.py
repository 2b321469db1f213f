"""A snapshot in pieces: each with its length in front, so that it can be made and read one after the other. Pure."""

import struct
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct("<I")


def piece(content: object) -> bytes:
    data = msgspec.msgpack.encode(content)
    return _LENGTH.pack(len(data)) + data


def pieces(data: bytes) -> Iterator[memoryview]:
    """What `piece` encoded, still as MessagePack; ValueError when the last one is cut off."""
    view, at = memoryview(data), 0
    while at < len(view):
        start = at + _LENGTH.size
        if start > len(view):
            raise ValueError("the last piece of a snapshot is cut off")
        at = start + _LENGTH.unpack_from(view, start - _LENGTH.size)[0]
        if at > len(view):
            raise ValueError("the last piece of a snapshot is cut off")
        yield view[start:at]
