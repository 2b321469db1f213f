"""Finding fields in the metadata of an Arrow message, which is a flatbuffer. What is broken is an InvalidFrame."""

import struct

from quiver.model.errors import InvalidFrame

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


def field(metadata: memoryview, table: int, number: int) -> int:
    """The position of a field of a table; 0 if it is left out."""
    vtable = table - int(_I32.unpack_from(metadata, table)[0])
    if vtable < 0:
        raise InvalidFrame(problem="the body is not an Arrow message: its metadata is broken")
    entry = 4 + 2 * number
    if entry + 2 > _U16.unpack_from(metadata, vtable)[0]:
        return 0
    (offset,) = _U16.unpack_from(metadata, vtable + entry)
    return table + int(offset) if offset else 0


def reference(metadata: memoryview, position: int) -> int:
    """The position of the table or vector that a field points to."""
    if not position:
        raise InvalidFrame(problem="the body is not an Arrow message: its metadata is incomplete")
    return position + int(_U32.unpack_from(metadata, position)[0])
