"""Arrow arrays that are built and read without pandas.

`pa.array`, `pa.scalar` and `to_numpy` import pandas wherever it is installed, to recognise its types: a second of
work inside the first call of a client that has nothing to do with pandas. Going through buffers imports nothing.
"""

import sys
from array import array
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.records.columns import HEADERS_TYPE

_HAS_PANDAS = find_spec("pandas") is not None
_MAX_BYTES = 2**31 - 1
_KINDS = {np.dtype(np.int64): pa.int64(), np.dtype(np.int32): pa.int32()}


def list_array(items: Sequence[Any], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """What `pa.array(items, kind)` returns or raises, for columns of bytes, strings and 64-bit numbers.

    `pa.array` is somewhat faster with lists, so it is used where pandas is loaded already or not installed.
    """
    if not _would_import_pandas() or type(items) not in (list, tuple):
        return pa.array(items, kind)
    if pa.types.is_integer(kind):
        built = _integers(items)
    elif pa.types.is_string(kind):
        built = _strings(items)
    else:
        built = _binaries(items, kind)
    return pa.array(items, kind) if built is None else built


def number_array(values: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """An array of int64 or int32, or of another `kind` of that width; the values are not copied."""
    found = _KINDS[values.dtype] if kind is None else kind
    return pa.Array.from_buffers(found, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def mask_array(values: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def number_scalar(value: int) -> pa.Scalar:
    return number_array(np.array([value], np.int64))[0]


def repeated_text(text: str, count: int) -> pa.Array:
    data = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def headers_array(rows: Sequence[Mapping[str, bytes] | None]) -> pa.Array:
    """A map per message; null where there is None."""
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) if row else 0 for row in rows], out=ends[1:])
    given = [row for row in rows if row]
    names = list_array(list(chain.from_iterable(given)), HEADERS_TYPE.key_type)
    contents = list_array(list(chain.from_iterable(row.values() for row in given)), HEADERS_TYPE.item_type)
    pairs = pa.StructArray.from_arrays([names, contents], fields=[HEADERS_TYPE.key_field, HEADERS_TYPE.item_field])
    validity, null_count = _validity(rows)
    return pa.Array.from_buffers(
        HEADERS_TYPE, len(rows), [validity, pa.py_buffer(ends)], null_count, children=[pairs]
    )


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


def _would_import_pandas() -> bool:
    return _HAS_PANDAS and "pandas" not in sys.modules


def _binaries(items: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """None when something else than bytes is among them."""
    present, validity, null_count = items, None, 0
    try:
        data = b"".join(present)
    except TypeError:
        present = [b"" if item is None else item for item in items]
        validity, null_count = _validity(items)
        try:
            data = b"".join(present)
        except TypeError:
            return None
    ends = np.zeros(len(items) + 1, np.int64)
    np.fromiter(map(len, present), np.int64, len(items)).cumsum(out=ends[1:])
    if ends[-1] != len(data) or len(data) > _MAX_BYTES:
        return None
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(items), buffers, null_count)


def _strings(items: Sequence[Any]) -> pa.Array | None:
    if all(type(item) is str for item in items):
        return _binaries([item.encode() for item in items], pa.string())
    return None


def _integers(items: Sequence[Any]) -> pa.Array | None:
    """None when something else than whole numbers of 64 bits is among them."""
    if not all(item is None or type(item) is int for item in items):
        return None
    validity, null_count = _validity(items)
    try:
        numbers = array("q", [0 if item is None else item for item in items] if null_count else items)
    except OverflowError:
        return None
    return pa.Array.from_buffers(pa.int64(), len(items), [validity, pa.py_buffer(numbers)], null_count)


def _validity(items: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """The bitmap of what is not None, which is left out when that is everything; and the number of Nones."""
    present = np.fromiter((item is not None for item in items), np.bool_, len(items))
    null_count = len(items) - int(present.sum())
    return (_bits(present) if null_count else None), null_count


def _bits(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
