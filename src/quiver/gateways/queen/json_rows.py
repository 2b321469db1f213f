"""JSON objects that differ in a few texts, all at once: columns are joined by Arrow, without an object per row."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_NUMBER_BYTES = 6
OFFSET_BITS = 8 * _NUMBER_BYTES
_LOWER = (1 << OFFSET_BITS) - 1
_FEW = 100
"""Rows that are joined faster one by one."""


def json_rows(parts: Sequence[bytes | pa.Array]) -> bytes:
    """The rows, with commas in between: each is its text of every column (binary), and all of every text in between.

    There is at least one row. Columns are inserted as they are: the caller has written them as JSON.
    """
    count = next(len(part) for part in parts if not isinstance(part, bytes))
    if count < _FEW:
        cells = [repeat(part, count) if isinstance(part, bytes) else _texts(part).to_pylist() for part in parts]
        return b",".join(map(b"".join, zip(*cells, strict=True)))
    texts = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else _texts(part) for part in parts]
    rows = pc.binary_join_element_wise(*texts, pa.scalar(b",", pa.binary()), pa.scalar(b"", pa.binary()))
    text: bytes = rows.buffers()[2].slice(0, _end(rows) - 1).to_pybytes()
    return text


def _texts(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _end(rows: pa.Array) -> int:
    """Where the text of the last row ends."""
    return int(np.frombuffer(rows.buffers()[1], np.int32, len(rows) + 1)[-1])


def hex_column(numbers: Sequence[int]) -> pa.Array:
    """The lower 48 bits of each, as 12 hexadecimal digits."""
    if len(numbers) < _FEW:
        return pa.array([b"%012x" % (number & _LOWER) for number in numbers], pa.binary())
    high_first = np.asarray(numbers, np.int64).astype(">i8").view(np.uint8).reshape(-1, 8)[:, -_NUMBER_BYTES:]
    digits = np.empty((len(numbers), 2 * _NUMBER_BYTES), np.uint8)
    digits[:, 0::2] = _HEX_DIGITS[high_first >> 4]
    digits[:, 1::2] = _HEX_DIGITS[high_first & 15]
    kind = pa.binary(2 * _NUMBER_BYTES)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(numbers), [None, pa.py_buffer(digits)])


def count_column(count: int) -> pa.Array:
    """The numbers from 0."""
    if count < _FEW:
        return pa.array([b"%d" % number for number in range(count)], pa.binary())
    return pa.array(np.arange(count)).cast(pa.string())


def text_column(texts: Sequence[str]) -> pa.Array:
    return pa.array(texts, pa.string())
