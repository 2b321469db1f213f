"""Arrow arrays that are built and read without pandas.

`pa.array`, `pa.scalar` and `to_numpy` import pandas wherever it is installed, to recognise its types: a second of
work inside the first call of a client that does not use pandas. Going through buffers imports nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_KINDS = {np.dtype(np.int64): pa.int64(), np.dtype(np.int32): pa.int32()}


def number_array(values: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """An array of int64 or int32, or of another `kind` of that width; the values are not copied."""
    found = _KINDS[values.dtype] if kind is None else kind
    return pa.Array.from_buffers(found, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def mask_array(values: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bitmap(values)])


def number_scalar(value: int) -> pa.Scalar:
    return number_array(np.array([value], np.int64))[0]


def binary_array(values: Sequence[bytes]) -> pa.Array:
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=ends[1:])
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def repeated_text(text: str, count: int) -> pa.Array:
    data = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def to_numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a column without nulls, which are not copied."""
    dtype = np.dtype(np.int32 if column.type.bit_width == 32 else np.int64)
    if len(column) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def to_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    """The booleans of a column without nulls."""
    if len(column) == 0:
        return np.empty(0, np.bool_)
    bits = np.frombuffer(column.buffers()[1], np.uint8)
    end = column.offset + len(column)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].view(np.bool_)


def bitmap(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    """A bit per value, in Arrow's order."""
    return pa.py_buffer(np.packbits(values, bitorder="little"))
