"""JSON objects that differ in a few texts, all at once: columns are joined by Arrow, without an object per row."""

from collections.abc import Sequence
from itertools import repeat
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.records.arrow_arrays import binary_array, number_array

_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_NUMBER_BYTES = 6
OFFSET_BITS = 8 * _NUMBER_BYTES
_LOWER = (1 << OFFSET_BITS) - 1
_FEW = 100
"""Rows that are joined faster one by one."""

Column: TypeAlias = pa.Array | list[bytes]


def json_rows(parts: Sequence[bytes | Column]) -> bytes:
    """The rows, with commas in between: each is its text of every column (binary), and all of every text in between.

    There is at least one row. Columns are inserted as they are: the caller has written them as JSON.
    """
    count = next(len(part) for part in parts if not isinstance(part, bytes))
    if count < _FEW:
        cells = [repeat(part, count) if isinstance(part, bytes) else _listed(part) for part in parts]
        return b",".join(map(b"".join, zip(*cells, strict=True)))
    texts = [binary_array([part])[0] if isinstance(part, bytes) else _array(part) for part in parts]
    comma, nothing = binary_array([b",", b""])
    rows = pc.binary_join_element_wise(*texts, comma, nothing)
    text: bytes = rows.buffers()[2].slice(0, _end(rows) - 1).to_pybytes()
    return text


def _listed(column: Column) -> list[bytes]:
    found: list[bytes] = column if isinstance(column, list) else column.to_pylist()
    return found


def _array(column: Column) -> pa.Array:
    if isinstance(column, list):
        return binary_array(column)
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _end(rows: pa.Array) -> int:
    """Where the text of the last row ends."""
    return int(np.frombuffer(rows.buffers()[1], np.int32, len(rows) + 1)[-1])


def hex_column(numbers: Sequence[int]) -> Column:
    """The lower 48 bits of each, as 12 hexadecimal digits."""
    if len(numbers) < _FEW:
        return [b"%012x" % (number & _LOWER) for number in numbers]
    high_first = np.asarray(numbers, np.int64).astype(">i8").view(np.uint8).reshape(-1, 8)[:, -_NUMBER_BYTES:]
    digits = np.empty((len(numbers), 2 * _NUMBER_BYTES), np.uint8)
    digits[:, 0::2] = _HEX_DIGITS[high_first >> 4]
    digits[:, 1::2] = _HEX_DIGITS[high_first & 15]
    kind = pa.binary(2 * _NUMBER_BYTES)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(numbers), [None, pa.py_buffer(digits)])


def count_column(count: int) -> Column:
    """The numbers from 0."""
    if count < _FEW:
        return [b"%d" % number for number in range(count)]
    return number_array(np.arange(count)).cast(pa.string())


def text_column(texts: Sequence[str]) -> Column:
    """Of texts without a line end."""
    return "\n".join(texts).encode().split(b"\n")
