"""The check of a body's Arrow message that comes before Arrow opens it.

Arrow checks that the metadata of its message is a sound flatbuffer. But it allocates what compressed buffers claim to
contain, and it accepts buffers that overlap. Both let a small body unpack to a large one, so both are refused here.

Arrow's own writer gives all messages with the same columns the same metadata but for some numbers. Metadata of this
`Shape` is read with one call; metadata of any other writer is walked through.
"""

import struct
from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from quiver.model.errors import InvalidFrame
from quiver.records.columns import Layout, layout_for

_PREFIX = struct.Struct("<II")  # the continuation marker and the length of the metadata
_CONTINUATION = 0xFFFFFFFF
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")

# Positions in the tables of Arrow's Message.fbs.
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 1, 2, 3
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 1, 2, 3
_RECORD_BATCH = 3


def check_message(message: memoryview, columns: int) -> None:
    """InvalidFrame unless this is one record batch message, without compressed or overlapping buffers.

    If a column allows no nulls, the metadata must say so. Everything else is left to Arrow's own checks.
    """
    found = message_numbers(message, columns)
    if found.body_position + found.body_length != len(message):
        raise InvalidFrame(problem="the Arrow message does not end where the body ends")
    _check_buffers(found.buffers, found.body_length)
    nodes = found.nodes
    for index in layout_for(columns).required_nodes:
        if nodes[2 * index + 1]:
            raise InvalidFrame(problem="there are nulls where none are allowed (timestamp, offset_delta, header)")


class MessageNumbers(NamedTuple):
    """What the metadata of a record batch says."""

    body_position: int
    body_length: int
    nodes: Sequence[int]
    """Length and number of nulls of each array."""
    buffers: Sequence[int]
    """Position and length of each buffer."""


class _Shape(NamedTuple):
    """The metadata that Arrow's writer makes for a layout: bytes that are always the same, and numbers."""

    fields: struct.Struct
    """The prefix and the metadata: fixed bytes and numbers in turns."""
    fixed_bytes: Any
    """Picks the fixed bytes from the fields."""
    expected: tuple[bytes, ...]
    body_length: int
    """Its place among the fields."""
    nodes: slice
    buffers: slice

    def numbers(self, message: memoryview) -> MessageNumbers | None:
        """None when the metadata has another shape."""
        if len(message) < self.fields.size:
            return None
        fields = self.fields.unpack_from(message)
        if self.fixed_bytes(fields) != self.expected:
            return None
        return MessageNumbers(self.fields.size, fields[self.body_length], fields[self.nodes], fields[self.buffers])


def message_numbers(message: memoryview, columns: int) -> MessageNumbers:
    """What the metadata says; InvalidFrame if it is cut off."""
    try:
        return _shape_of(columns).numbers(message) or _walk(message, layout_for(columns))
    except (struct.error, IndexError) as error:
        raise InvalidFrame(problem="the body is not an Arrow message: its metadata is cut off") from error


@cache
def _shape_of(columns: int) -> _Shape:
    """From a message of one row of nulls: it has all parts that any other one has."""
    layout = layout_for(columns)
    rows = [pa.nulls(1, column.field.type) for column in layout.columns]
    sample = memoryview(pa.RecordBatch.from_arrays(rows, schema=layout.schema).serialize())
    metadata, root = _metadata(sample)
    batch = reference(metadata, field(metadata, root, _MESSAGE_HEADER))
    runs = {
        field(metadata, root, _MESSAGE_BODY_LENGTH): 1,
        field(metadata, batch, _BATCH_LENGTH): 1,
        (nodes := reference(metadata, field(metadata, batch, _BATCH_NODES)) + 4): 2 * layout.node_count,
        (buffers := reference(metadata, field(metadata, batch, _BATCH_BUFFERS)) + 4): 2 * layout.buffer_count,
    }
    places: dict[int, slice] = {}
    fixed: list[int] = []
    form, end, count = "<", 0, 0
    for position, numbers in sorted((_PREFIX.size + at, numbers) for at, numbers in runs.items()):
        form += f"{position - end}s{numbers}q"
        fixed.append(count)
        places[position - _PREFIX.size] = slice(count + 1, count + 1 + numbers)
        end, count = position + 8 * numbers, count + 1 + numbers
    size = _PREFIX.size + len(metadata)
    fields = struct.Struct(f"{form}{size - end}s")
    fixed_bytes = itemgetter(*fixed, count)
    body_length = places[field(metadata, root, _MESSAGE_BODY_LENGTH)].start
    expected = fixed_bytes(fields.unpack_from(sample))
    return _Shape(fields, fixed_bytes, expected, body_length, places[nodes], places[buffers])


def _metadata(message: memoryview) -> tuple[memoryview, int]:
    """The metadata of a message, and where its root table lies in it."""
    continuation, metadata_length = _PREFIX.unpack_from(message)
    if continuation != _CONTINUATION:
        raise InvalidFrame(problem="the body is not an Arrow message")
    metadata = message[_PREFIX.size : _PREFIX.size + metadata_length]
    return metadata, _U32.unpack_from(metadata)[0]


def _walk(message: memoryview, layout: Layout) -> MessageNumbers:
    """The numbers of metadata of any shape."""
    metadata, root = _metadata(message)
    header_type = field(metadata, root, _MESSAGE_HEADER_TYPE)
    if not header_type or metadata[header_type] != _RECORD_BATCH:
        raise InvalidFrame(problem="the body is not an Arrow record batch")
    length_at = field(metadata, root, _MESSAGE_BODY_LENGTH)
    body_length = _I64.unpack_from(metadata, length_at)[0] if length_at else 0
    batch = reference(metadata, field(metadata, root, _MESSAGE_HEADER))
    if field(metadata, batch, _BATCH_COMPRESSION):
        raise InvalidFrame(problem="Arrow's own buffer compression is not supported; compress the whole body instead")
    buffers = _pairs(metadata, field(metadata, batch, _BATCH_BUFFERS), layout.buffer_count, "buffers")
    nodes: Sequence[int] = ()
    if layout.required_nodes:
        nodes = _pairs(metadata, field(metadata, batch, _BATCH_NODES), layout.node_count, "arrays")
    # the metadata may say that it is longer than the message: then the body ends elsewhere, too
    return MessageNumbers(_PREFIX.size + _PREFIX.unpack_from(message)[1], body_length, nodes, buffers)


def _check_buffers(places: Sequence[int], body_length: int) -> None:
    end = 0
    for index in range(1, len(places), 2):
        length = places[index]
        if length:
            position = places[index - 1]
            if length < 0 or position < end:
                raise InvalidFrame(problem="the buffers of the Arrow message do not follow one another")
            end = position + length
    if end > body_length:
        raise InvalidFrame(problem="the buffers of the Arrow message go beyond its end")


def _pairs(metadata: memoryview, position: int, count: int, what: str) -> tuple[int, ...]:
    """The numbers of a vector of `count` structs of two int64."""
    vector = reference(metadata, position)
    (stored,) = _U32.unpack_from(metadata, vector)
    if stored != count:
        raise InvalidFrame(problem=f"the Arrow message has {stored} {what}, its columns need {count}")
    return struct.unpack_from(f"<{2 * count}q", metadata, vector + 4)


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
