"""A column of headers in which some messages have one header, their `traceparent`, and the others none.

What Arrow needs for it is at hand: the names are always the same, and the contents follow one another. So it is
written into a frame without an array per level of nesting.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.model.trace.traceparent import LONGEST_TRACEPARENT, TRACEPARENT, parse_traceparent
from quiver.records.arrow_arrays import repeated_text, to_mask
from quiver.records.columns import HEADERS_TYPE

PARENT_BYTES = 55
"""Of a `traceparent`."""
HEADER_SIZE = PARENT_BYTES + len(TRACEPARENT)
"""What the header adds to the size of a message."""
_NAME = TRACEPARENT.encode()
_KEPT = 1024
"""For so many messages the parts that are always the same are kept."""
_NAMES = memoryview(_NAME * _KEPT)
_STEPS = np.arange(_KEPT + 1, dtype=np.int32)
_NAME_ENDS = (_STEPS * np.int32(len(_NAME))).data.cast("B")
_PARENT_ENDS = (_STEPS * np.int32(PARENT_BYTES)).data.cast("B")


_LEFT_OUT: tuple[tuple[Any, ...], int] = ((), 0)


class TraceHeaders:
    __slots__ = ("_ends", "_parents", "traced_count")

    null_count = 0

    def __init__(self, ends: npt.NDArray[np.int32], parents: memoryview) -> None:
        """`ends` counts the headers before each message, and after the last; `parents` are their contents."""
        self._ends = ends
        self._parents = parents
        self.traced_count = len(parents) // PARENT_BYTES

    def __len__(self) -> int:
        return len(self._ends) - 1

    def buffers(self) -> list[tuple[tuple[Any, ...], int]]:
        """Pieces and size of each: of the maps, of the pairs, of the names, of the contents, as Arrow orders them."""
        count = self.traced_count
        names, name_ends, parent_ends = _NAMES, _NAME_ENDS, _PARENT_ENDS
        if count > _KEPT:
            steps = np.arange(count + 1, dtype=np.int32)
            names = memoryview(_NAME * count)
            name_ends = (steps * np.int32(len(_NAME))).data.cast("B")
            parent_ends = (steps * np.int32(PARENT_BYTES)).data.cast("B")
        size, names_size = 4 * (count + 1), count * len(_NAME)
        return [
            _LEFT_OUT,
            ((self._ends.data,), self._ends.nbytes),
            _LEFT_OUT,
            _LEFT_OUT,
            ((name_ends[:size],), size),
            ((names[:names_size],), names_size),
            _LEFT_OUT,
            ((parent_ends[:size],), size),
            ((self._parents,), count * PARENT_BYTES),
        ]

    def to_array(self) -> pa.MapArray:
        """The same as Arrow has it."""
        count = self.traced_count
        ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(PARENT_BYTES))
        contents = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(self._parents)])
        return pa.Array.from_buffers(
            HEADERS_TYPE, len(self), [None, pa.py_buffer(self._ends)], 0, children=[trace_pairs(contents)]
        )


def trace_pairs(contents: pa.Array) -> pa.StructArray:
    """The pairs of a map with the header alone."""
    return pa.StructArray.from_arrays(
        [repeated_text(TRACEPARENT, len(contents)), contents],
        fields=[HEADERS_TYPE.key_field, HEADERS_TYPE.item_field],
    )


class BinaryBuffers(NamedTuple):
    """A column of bytes or text: where its items begin and end in `data`."""

    ends: npt.NDArray[np.int32]
    data: memoryview


class TraceEntries(NamedTuple):
    """Headers named `traceparent`; whether their contents mean anything is left to `are_sampled`."""

    entries: npt.NDArray[np.int64]
    """Their places among all headers."""
    parents: bytes
    """The first 55 bytes of each."""


def are_traces_only(names: BinaryBuffers, contents: BinaryBuffers) -> bool:
    """Whether headers are what `TraceHeaders` writes: then the contents follow one another."""
    count = len(names.ends) - 1
    if count > _KEPT or len(names.data) != count * len(_NAME) or len(contents.data) != count * PARENT_BYTES:
        return False
    size = 4 * (count + 1)
    return (
        names.data == _NAMES[: len(names.data)]
        and names.ends.tobytes() == _NAME_ENDS[:size]
        and contents.ends.tobytes() == _PARENT_ENDS[:size]
    )


def trace_entries(names: BinaryBuffers, contents: BinaryBuffers) -> TraceEntries:
    entries = _named(names)
    starts = contents.ends[entries].astype(np.int64)
    lengths = contents.ends[entries + 1] - starts
    fitting = lengths == PARENT_BYTES
    for place in np.flatnonzero((lengths > PARENT_BYTES) & (lengths <= LONGEST_TRACEPARENT)).tolist():
        start = int(starts[place])
        fitting[place] = parse_traceparent(bytes(contents.data[start : start + int(lengths[place])])) is not None
    return TraceEntries(entries[fitting], _gathered(contents.data, starts[fitting], PARENT_BYTES).tobytes())


def are_sampled(parents: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which rows of 55 bytes are what `parse_traceparent` takes, and are sampled."""
    digits = _HEX[parents.T]  # a row per place: numpy is quicker along rows
    trace, span = np.bitwise_or.reduce(digits[3:35]), np.bitwise_or.reduce(digits[36:52])
    others = np.bitwise_or.reduce(digits[[0, 1, 53, 54]])
    fitting: npt.NDArray[np.bool_] = (trace | span | others) < _DASH
    fitting &= (trace > 0) & (span > 0) & (digits[0] & digits[1] != _LAST_DIGIT)
    fitting &= (digits[2] == _DASH) & (digits[35] == _DASH) & (digits[52] == _DASH)
    fitting &= (digits[54] & 1).view(np.bool_)
    return fitting


def has_sampled(headers: pa.MapArray) -> bool:
    """Whether a message with these headers is part of a trace that is recorded: its `traceparent` says so."""
    first, last = headers.offsets[0].as_py(), headers.offsets[-1].as_py()
    if first == last:
        return False
    names, contents = (_buffers(column.slice(first, last - first)) for column in (headers.keys, headers.items))
    parents = np.frombuffer(trace_entries(names, contents).parents, np.uint8).reshape(-1, PARENT_BYTES)
    return bool(len(parents)) and bool(are_sampled(parents).any())


def can_be_traced(headers: pa.MapArray) -> npt.NDArray[np.bool_]:
    """Which messages may get the header: those that do not have it."""
    ends = np.frombuffer(headers.buffers()[1], np.int32, len(headers) + 1, headers.offset * 4)
    first, last = int(ends[0]), int(ends[-1])
    free = np.ones(len(headers), np.bool_)
    if last > first:
        named = _named(_buffers(headers.keys.slice(first, last - first)))
        free[np.searchsorted(ends, named + first, side="right") - 1] = False
    if headers.null_count:  # Arrow allows a null to cover headers, which do not count
        free &= to_mask(headers.is_valid()) | (np.diff(ends) == 0)
    return free


_DASH, _OTHER, _LAST_DIGIT = 16, 32, 15
_HEX = np.full(256, _OTHER, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[ord("-")] = _DASH
_NAME_DIGITS = np.frombuffer(_NAME, np.uint8)


def _named(names: BinaryBuffers) -> npt.NDArray[np.int64]:
    fitting = np.flatnonzero(np.diff(names.ends) == len(_NAME))
    if not len(fitting):
        return fitting
    found = _gathered(names.data, names.ends[fitting].astype(np.int64), len(_NAME))
    is_named: npt.NDArray[np.bool_] = (found == _NAME_DIGITS).all(axis=1)
    named: npt.NDArray[np.int64] = fitting[is_named]
    return named


def _gathered(data: memoryview, starts: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint8]:
    """The bytes from each start on, in rows."""
    if not len(starts):
        return np.empty((0, size), np.uint8)
    found: npt.NDArray[np.uint8] = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(size)]
    return found


def _buffers(column: pa.Array) -> BinaryBuffers:
    _, ends, data = column.buffers()
    return BinaryBuffers(
        np.frombuffer(ends, np.int32, len(column) + 1, column.offset * 4), memoryview(b"" if data is None else data)
    )
