"""Chooses the messages of a frame that begin a trace, and gives them their header: all of a frame at once."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.client.connection.fork import watch_forks
from quiver.client.produce.rows import Indices, Rows
from quiver.model.limits import MIB
from quiver.model.trace.traceparent import TraceParent
from quiver.records.arrow_arrays import bitmap, number_array, to_mask
from quiver.records.columns import HEADERS, HEADERS_TYPE
from quiver.records.traced.column import HEADER_SIZE, PARENT_BYTES, TraceHeaders
from quiver.records.traced.entries import can_be_traced
from quiver.system.randomness import Randomness

_PREPARED = 1024
"""Traces whose ids and places are made at once."""
_LONGEST_GAP = 2**40
_MOST_FRAME_BYTES = 12 * MIB
"""With the headers: less than what a broker takes."""
_ENTRY_BYTES = HEADER_SIZE + 8
_FORM = np.frombuffer(b"00-" + bytes(32) + b"-" + bytes(16) + b"-01", np.uint8)


class FrameSampler:
    """A share of all messages, each with the same probability. Messages that have the header keep theirs.

    Of one producer, and used by whoever builds its frames: one at a time.
    """

    def __init__(self, share: float, randomness: Randomness) -> None:
        self._share = share
        self._randomness = randomness
        self._passed = 0
        """Messages since the traces were prepared."""
        self._used = 0
        """Of the prepared traces."""
        self._places = np.empty(0, np.int64)
        """Of the messages that begin the prepared traces, counted as in `_passed`."""
        self._next = 0
        self._parents = memoryview(b"")
        self._prepare()
        watch_forks(self)

    def pass_one(self) -> bool:
        """Whether the next message begins no trace; then it is taken as sent."""
        is_passed = self._passed < self._next
        self._passed += is_passed
        return is_passed

    def after_fork(self, parent_pid: int) -> None:
        """What was prepared is the parent's."""
        self._prepare()

    def within(self, max_message_bytes: int) -> Callable[[Rows], Rows]:
        """`added_to` for messages of a topic."""
        return partial(self.added_to, max_message_bytes=max_message_bytes)

    def added_to(self, rows: Rows, *, max_message_bytes: int) -> Rows:
        """The rows, with the headers of those that begin a trace; the same ones if none does."""
        count = len(rows)
        if self._passed + count <= self._next:
            self._passed += count
            return rows
        if self._passed + count <= int(self._places[-1]):
            return self._with_headers(rows, *self._chosen(count), max_message_bytes)
        places, parents = self._chosen_of_many(count)
        return self._with_headers(rows, places, memoryview(parents), max_message_bytes)

    def _chosen(self, count: int) -> tuple[Indices, memoryview]:
        """Which of the next messages begin traces, and the contents of their headers; all of them are prepared."""
        start, end = self._used, int(self._places.searchsorted(self._passed + count))
        places = self._places[start:end] - self._passed
        self._passed += count
        self._used = end
        self._next = int(self._places[end])
        return places, self._parents[start * PARENT_BYTES : end * PARENT_BYTES]

    def _chosen_of_many(self, count: int) -> tuple[Indices, bytes]:
        """The same if more traces have to be prepared."""
        places: list[Indices] = []
        parents: list[memoryview] = []
        done = 0
        while done < count:
            part = min(count - done, int(self._places[-1]) - self._passed)
            if part > 0:
                found, contents = self._chosen(part)
                places.append(found + done)
                parents.append(contents)
                done += part
            if self._used >= len(self._places) - 1:
                self._prepare(self._next - self._passed)
        return np.concatenate(places) if places else np.empty(0, np.int64), b"".join(parents)

    def _prepare(self, first_gap: int | None = None) -> None:
        """The ids and places of the next traces; `first_gap` is how far away the first is, if that is decided."""
        gaps = self._gaps()
        places = np.cumsum(gaps) - 1
        if first_gap is not None:
            places += first_gap - int(places[0])
        self._passed = self._used = 0
        self._places, self._next = places, int(places[0])
        digits = np.frombuffer(self._randomness.token(24 * _PREPARED).hex().encode(), np.uint8)
        parents = np.tile(_FORM, (_PREPARED, 1))
        parents[:, 3:35] = digits.reshape(_PREPARED, 48)[:, :32]
        parents[:, 36:52] = digits.reshape(_PREPARED, 48)[:, 32:]
        self._parents = memoryview(parents.tobytes())

    def _gaps(self) -> npt.NDArray[np.int64]:
        """Messages from one that begins a trace to the next, so that each begins one with the same probability."""
        if self._share >= 1:
            return np.ones(_PREPARED, np.int64)
        numbers = np.frombuffer(self._randomness.token(8 * _PREPARED), np.uint64)
        chances = ((numbers >> np.uint64(11)).astype(np.float64) + 1) / 2**53
        gaps = 1 + np.floor(np.log(chances) / np.log1p(-self._share))
        bounded: npt.NDArray[np.int64] = np.minimum(gaps, _LONGEST_GAP).astype(np.int64)
        return bounded

    def _with_headers(self, rows: Rows, places: Indices, parents: memoryview, max_message_bytes: int) -> Rows:
        if rows.nbytes + len(places) * _ENTRY_BYTES > max_message_bytes:
            places = _fitting(rows, places, max_message_bytes)
        own = rows.arrays.get(HEADERS.bit)
        if own is not None:
            places = places[can_be_traced(own)[places]]
        if not len(places):
            return rows
        parents = parents[: len(places) * PARENT_BYTES]
        headers = _sparse(len(rows), places, parents) if own is None else _joined(own, places, parents)
        return Rows({**rows.arrays, HEADERS.bit: headers}, rows.timestamp_ms)


def with_parent(rows: Rows, parent: TraceParent) -> Rows:
    """The rows in the trace of their sender, but for those that have the header."""
    own = rows.arrays.get(HEADERS.bit)
    places = np.arange(len(rows)) if own is None else np.flatnonzero(can_be_traced(own))
    parents = memoryview(parent.text.encode() * len(places))
    headers = _sparse(len(rows), places, parents).to_array() if own is None else _joined(own, places, parents)
    return Rows({**rows.arrays, HEADERS.bit: headers}, rows.timestamp_ms)


def _fitting(rows: Rows, places: Indices, max_message_bytes: int) -> Indices:
    """Those whose message is not too large with the header, and as many as fit a frame."""
    fitting = places[rows.sizes_at(places) + HEADER_SIZE <= max_message_bytes]
    room = _MOST_FRAME_BYTES - rows.nbytes - 4 * len(rows)
    return fitting[: max(0, room // _ENTRY_BYTES)]


def _sparse(count: int, places: Indices, parents: memoryview) -> TraceHeaders:
    ends = np.zeros(count + 1, np.int32)
    ends[places + 1] = 1
    return TraceHeaders(ends.cumsum(dtype=np.int32), parents)


def _joined(own: pa.MapArray, places: Indices, parents: memoryview) -> pa.MapArray:
    """The own headers of all rows, and one more for some."""
    count = len(places)
    ends = np.frombuffer(own.buffers()[1], np.int32, len(own) + 1, own.offset * 4).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    ends -= first
    added = TraceHeaders(np.arange(count + 1, dtype=np.int32), parents).to_array()
    columns = zip((own.keys, own.items), (added.keys, added.items), strict=True)
    names, contents = (pa.concat_arrays([old.slice(first, last - first), new]) for old, new in columns)
    order = number_array(np.insert(np.arange(last - first), ends[places + 1], last - first + np.arange(count)))
    pairs = pa.StructArray.from_arrays(
        [names.take(order), contents.take(order)], fields=[HEADERS_TYPE.key_field, HEADERS_TYPE.item_field]
    )
    more = np.zeros(len(ends), np.int64)
    more[places + 1] = 1
    present = to_mask(own.is_valid())
    validity = None
    if own.null_count:
        present = present.copy()
        present[places] = True
        validity = bitmap(present)
    new_ends = (ends + more.cumsum()).astype(np.int32)
    return pa.Array.from_buffers(
        HEADERS_TYPE, len(own), [validity, pa.py_buffer(new_ends)], int((~present).sum()), children=[pairs]
    )
