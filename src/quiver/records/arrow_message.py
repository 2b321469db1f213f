"""The Arrow message of a body, as the pieces it consists of, so that its bytes are copied once: into the frame.

Only what frames mostly have: columns of bytes and of numbers, without nulls, and headers of traces. The metadata of
such a message differs from that of any other with the same columns in a few numbers at fixed places, so it is made by
Arrow once for each set of columns, and the numbers are put into a copy.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.records.arrow_arrays import number_array
from quiver.records.columns import HEADERS, HEADERS_TYPE, layout_for
from quiver.records.header import ALIGNMENT
from quiver.records.message_check import field, reference
from quiver.records.traced.column import PARENT_BYTES, TraceHeaders

Piece = Any
"""Bytes, or a buffer of Arrow, which has no types."""
_PREFIX_BYTES = 8
_I64 = struct.Struct("<q")
_ENTRIES_AT = 4
_MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 2, 3
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS = 0, 1, 2
_MAX_COLUMN_BYTES = 2**31 - 1
_ZEROS = bytes(ALIGNMENT)


class BytesList:
    """A column of bytes that are still the user's own objects. `ends` has where each one ends, after a 0."""

    __slots__ = ("ends", "items")

    def __init__(self, items: Sequence[bytes], ends: npt.NDArray[np.int64]) -> None:
        self.items = items
        self.ends = ends

    def __len__(self) -> int:
        return len(self.items)

    @property
    def nbytes(self) -> int:
        return int(self.ends[-1])

    def slice(self, start: int, count: int) -> "BytesList":
        stop = start + count
        return BytesList(self.items[start:stop], self.ends[start : stop + 1] - self.ends[start])


def bytes_list(items: Sequence[object], least_average: int) -> BytesList | None:
    """The column of a list; None unless all are bytes, and large on average."""
    count = len(items)
    if not count or set(map(type, items)) != {bytes}:
        return None
    ends = np.zeros(count + 1, np.int64)
    np.fromiter(map(len, items), np.int64, count).cumsum(out=ends[1:])  # type: ignore[arg-type]
    return BytesList(items, ends) if ends[-1] >= least_average * count else None  # type: ignore[arg-type]


class Message(NamedTuple):
    pieces: Sequence[Piece]
    size_bytes: int
    record_count: int


class _Template(NamedTuple):
    metadata: bytes
    length_at: int
    body_length_at: int
    nodes_at: int
    buffers_at: int


def message_of(arrays: Mapping[int, Any], columns: int) -> Message | None:
    """The message of these columns; None where only Arrow itself can write it, or will refuse it."""
    headers = arrays.get(HEADERS.bit)
    if headers is not None and type(headers) is not TraceHeaders:
        return None
    layout = layout_for(columns)
    count = len(arrays[layout.columns[0].bit])
    lengths = [count] * layout.node_count
    buffers: list[tuple[Sequence[Piece], int]] = []
    for column in layout.columns:
        array = arrays[column.bit]
        if array is headers and headers is not None:
            at = layout.node_of(column)
            lengths[at + 1 : at + column.nodes] = [headers.traced_count] * (column.nodes - 1)
            found: Sequence[tuple[Sequence[Piece], int]] | None = headers.buffers()
        else:
            found = _bytes_list(array) if isinstance(array, BytesList) else _buffers(array, column.field.type)
        if not count or len(array) != count or found is None:
            return None
        buffers += found
    return _assemble(_template(columns), lengths, buffers)


def _bytes_list(column: BytesList) -> list[tuple[Sequence[Piece], int]] | None:
    size = int(column.ends[-1])
    if size > _MAX_COLUMN_BYTES:
        return None
    ends = column.ends.astype(np.int32).data
    return [((), 0), ((ends.cast("B"),), ends.nbytes), (column.items, size)]


def _buffers(array: pa.Array, kind: pa.DataType) -> list[tuple[Sequence[Piece], int]] | None:
    """The pieces of each buffer, and their size."""
    if array.type != kind or array.null_count:
        return None
    count, stored = len(array), array.buffers()
    if not pa.types.is_binary(kind):
        width = kind.bit_width // 8
        return [((), 0), ((stored[1].slice(array.offset * width, count * width),), count * width)]
    ends = np.frombuffer(stored[1], np.int32, count + 1, array.offset * 4)
    start, stop = int(ends[0]), int(ends[-1])
    if start:
        ends = ends - np.int32(start)
    data = () if stop == start else (stored[2].slice(start, stop - start),)
    return [((), 0), ((ends.data.cast("B"),), ends.nbytes), (data, stop - start)]


def _assemble(template: _Template, lengths: Sequence[int], buffers: Sequence[tuple[Sequence[Piece], int]]) -> Message:
    """`lengths` are those of all arrays, the nested ones too; none of them has nulls."""
    count = lengths[0]
    metadata = bytearray(template.metadata)
    pieces: list[Sequence[Piece]] = [(metadata,)]
    position, places = 0, list[int]()
    for content, size in buffers:
        padding = -size % ALIGNMENT
        places += (position, size)
        position += size + padding
        pieces.append(content)
        if padding:
            pieces.append((_ZEROS[:padding],))
    _I64.pack_into(metadata, template.length_at, count)
    _I64.pack_into(metadata, template.body_length_at, position)
    nodes = [0] * (2 * len(lengths))
    nodes[::2] = lengths
    struct.pack_into(f"<{len(nodes)}q", metadata, template.nodes_at, *nodes)
    struct.pack_into(f"<{len(places)}q", metadata, template.buffers_at, *places)
    return Message(list(chain.from_iterable(pieces)), len(metadata) + position, count)


@cache
def _template(columns: int) -> _Template:
    """What Arrow writes for one message in which no number is 0: it leaves out those that are."""
    schema = layout_for(columns).schema
    batch = pa.RecordBatch.from_arrays([_one(kind) for kind in schema.types], schema=schema)
    message = memoryview(batch.serialize())
    (length,) = struct.unpack_from("<I", message, 4)
    metadata = message[_PREFIX_BYTES : _PREFIX_BYTES + length]
    (root,) = struct.unpack_from("<I", metadata)
    record_batch = reference(metadata, field(metadata, root, _MESSAGE_HEADER))
    places = (
        field(metadata, record_batch, _BATCH_LENGTH),
        field(metadata, root, _MESSAGE_BODY_LENGTH),
        reference(metadata, field(metadata, record_batch, _BATCH_NODES)) + _ENTRIES_AT,
        reference(metadata, field(metadata, record_batch, _BATCH_BUFFERS)) + _ENTRIES_AT,
    )
    return _Template(bytes(message[: _PREFIX_BYTES + length]), *(_PREFIX_BYTES + place for place in places))


def _one(kind: pa.DataType) -> pa.Array:
    if kind == HEADERS_TYPE:
        return TraceHeaders(np.array([0, 1], np.int32), memoryview(bytes(PARENT_BYTES))).to_array()
    if pa.types.is_binary(kind):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"x")])
    return number_array(np.array([1], np.int32 if kind.bit_width == 32 else np.int64))
