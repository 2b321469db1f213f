"""Finds the header `traceparent` among the headers of a frame, and says which of them are sampled."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.model.trace.traceparent import LONGEST_TRACEPARENT, TRACEPARENT, parse_traceparent
from quiver.records.arrow_arrays import to_mask
from quiver.records.traced.column import KEPT, NAME_ENDS, NAMES, PARENT_BYTES, PARENT_ENDS, TraceHeaders

_NAME = TRACEPARENT.encode()


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
    if count > KEPT or len(names.data) != count * len(_NAME) or len(contents.data) != count * PARENT_BYTES:
        return False
    size = 4 * (count + 1)
    return (
        names.data == NAMES[: len(names.data)]
        and names.ends.tobytes() == NAME_ENDS[:size]
        and contents.ends.tobytes() == PARENT_ENDS[:size]
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


def has_sampled(headers: pa.MapArray | TraceHeaders) -> bool:
    """Whether a message with these headers is part of a trace that is recorded: its `traceparent` says so."""
    if isinstance(headers, TraceHeaders):
        return True
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
