"""Messages as Arrow columns: cut by size, split by partition, sealed into frames."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.client.produce.options import BatchLimits
from quiver.model.errors import InvalidRequest, MessageTooLarge
from quiver.model.limits import KIB
from quiver.records.arrow_arrays import number_array, to_mask, to_numbers
from quiver.records.arrow_input import arrow_columns
from quiver.records.arrow_message import BytesList, bytes_list
from quiver.records.build import headers_array, list_array, seal, seal_into, sparse_headers
from quiver.records.columns import (
    COLUMNS,
    DELIVER_AT,
    EXPIRES_AT,
    HEADERS,
    ID,
    KEY,
    TIMESTAMP,
    VALUE,
    layout_for,
)
from quiver.records.header import FrameHeader, body_crc, pack_header, unpack_header
from quiver.records.read import open_frame
from quiver.structures.murmur2 import partitions_for
from quiver.structures.reused_buffers import ReusedBuffers

Sizes = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]
_NO_KEY = list_array([b""], KEY.field.type)[0]
_LARGE_VALUE_BYTES = 512
_LARGE_FRAME_BYTES = 256 * KIB
Frame = bytes | bytearray | memoryview
Headers = Sequence[Mapping[str, bytes] | None] | Mapping[int, Mapping[str, bytes]]
"""Of each row, or of those rows that have any."""
_HASHED = (KEY.bit, ID.bit)
"""The columns that choose the partition: the first one that a message has."""


class Rows:
    """A run of messages: columns by their header bit, and the timestamp of those that have none of their own.

    Large values without keys and ids stay the objects that the user gave: they are copied once, into the frame.
    """

    __slots__ = ("arrays", "timestamp_ms")

    def __init__(self, arrays: dict[int, Any], timestamp_ms: int) -> None:
        self.arrays = arrays
        self.timestamp_ms = timestamp_ms

    @classmethod
    def from_lists(
        cls,
        values: Sequence[bytes | None],
        *,
        timestamp_ms: int,
        keys: Sequence[bytes | None] | None = None,
        headers: Headers | None = None,
        timestamps_ms: Sequence[int | None] | None = None,
        expires_at_ms: Sequence[int | None] | None = None,
        deliver_at_ms: Sequence[int | None] | None = None,
        ids: Sequence[bytes | None] | None = None,
    ) -> "Rows":
        large = _large_values(values) if keys is None and ids is None else None
        arrays = {VALUE.bit: large or _array(values, VALUE.field.type, "value")}
        if keys is not None:
            arrays[KEY.bit] = _array(keys, KEY.field.type, "key")
        if headers is not None:
            arrays[HEADERS.bit] = _headers(headers, len(values))
        if timestamps_ms is not None:
            filled = [timestamp_ms if time is None else time for time in timestamps_ms]
            arrays[TIMESTAMP.bit] = _array(filled, TIMESTAMP.field.type, "timestamp")
        if expires_at_ms is not None:
            arrays[EXPIRES_AT.bit] = _array(expires_at_ms, EXPIRES_AT.field.type, "expires_at")
        if deliver_at_ms is not None:
            arrays[DELIVER_AT.bit] = _array(deliver_at_ms, DELIVER_AT.field.type, "deliver_at")
        if ids is not None:
            arrays[ID.bit] = _array(ids, ID.field.type, "id")
        return cls(arrays, timestamp_ms)

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch | pa.Table, timestamp_ms: int) -> "Rows":
        arrays, low, high = arrow_columns(batch, timestamp_ms)
        return cls(arrays, low if low == high else timestamp_ms)

    @classmethod
    def from_frame(cls, frame: Frame) -> "Rows":
        """The rows of a frame that this client built."""
        opened = open_frame(frame, verify=False)
        columns = layout_for(opened.header.columns).columns
        arrays = {column.bit: opened.batch.column(place) for place, column in enumerate(columns)}
        return cls(arrays, opened.header.min_timestamp_ms)

    @classmethod
    def joined(cls, runs: Sequence["Rows"]) -> "Rows":
        """Joins runs. A column that a run does not have is null there; its timestamp is kept."""
        if len(runs) == 1:
            return runs[0]
        bits = {bit for run in runs for bit in run.arrays}
        if len({run.timestamp_ms for run in runs}) > 1:
            bits.add(TIMESTAMP.bit)
        arrays = {bit: pa.concat_arrays([run._column(bit) for run in runs]) for bit in sorted(bits)}
        return cls(arrays, runs[0].timestamp_ms)

    def with_headers(self, headers: Mapping[str, bytes]) -> "Rows":
        """The same headers for each of them."""
        one, count = _headers([headers], 1), len(self)
        order = number_array(np.tile(np.arange(len(headers)), count))
        ends = number_array(np.arange(count + 1, dtype=np.int32) * np.int32(len(headers)))
        column = pa.MapArray.from_arrays(ends, one.keys.take(order), one.items.take(order))
        return Rows({**self.arrays, HEADERS.bit: column}, self.timestamp_ms)

    def delayed_until(self, time_ms: int) -> "Rows":
        times = number_array(np.full(len(self), time_ms, np.int64))
        return Rows({**self.arrays, DELIVER_AT.bit: times}, self.timestamp_ms)

    def __len__(self) -> int:
        return len(self.arrays[VALUE.bit])

    @property
    def has_hashes(self) -> bool:
        """Whether some of the messages have a key or an id, which chooses their partition."""
        return any(array.null_count < len(array) for bit in _HASHED if (array := self.arrays.get(bit)) is not None)

    def _column(self, bit: int) -> pa.Array:
        """A column, or nulls if it is left out here."""
        found = self.arrays.get(bit)
        if found is not None:
            return found
        if bit == TIMESTAMP.bit:
            return number_array(np.full(len(self), self.timestamp_ms, np.int64))
        return pa.nulls(len(self), COLUMNS[bit].field.type)

    def slice(self, start: int, stop: int) -> "Rows":
        if start == 0 and stop == len(self):
            return self
        return Rows({bit: array.slice(start, stop - start) for bit, array in self.arrays.items()}, self.timestamp_ms)

    def take(self, order: Indices) -> "Rows":
        chosen = number_array(order)
        return Rows({bit: array.take(chosen) for bit, array in self.arrays.items()}, self.timestamp_ms)

    def partitions(self, count: int, sticky: int) -> npt.NDArray[np.int32]:
        """The partition of each row: by the hash of its key, of its id where it has none, or `sticky`."""
        hashed = [array for bit in _HASHED if (array := self.arrays.get(bit)) is not None]
        words = hashed[0] if len(hashed) == 1 else pc.coalesce(*hashed)
        if not words.null_count:
            return partitions_for(words, count)
        partitions = partitions_for(words.fill_null(_NO_KEY), count)
        partitions[to_mask(words.is_null())] = sticky
        return partitions

    @property
    def size_bytes(self) -> int:
        """The sum of `sizes`, but with the exact size of headers."""
        size = 0
        for bit in (VALUE.bit, *_HASHED):
            if bit in self.arrays:
                ends = _offsets(self.arrays[bit])
                size += int(ends[-1]) - int(ends[0])
        if HEADERS.bit in self.arrays:
            size += self.arrays[HEADERS.bit].nbytes
        return size

    @property
    def nbytes(self) -> int:
        """At least the size of all messages."""
        size = self.arrays[VALUE.bit].nbytes
        if len(self.arrays) > 1:
            size += sum(array.nbytes for bit, array in self.arrays.items() if bit)
        return int(size)

    def sizes(self) -> Sizes:
        """The size of each message for limits; headers count with their average."""
        values = self.arrays[VALUE.bit]
        ends = values.ends if isinstance(values, BytesList) else _offsets(values)
        sizes = np.diff(ends).astype(np.int64, copy=False)
        for bit in _HASHED:
            if bit in self.arrays:
                sizes += np.diff(_offsets(self.arrays[bit]))
        return sizes + self._average_headers()

    def sizes_at(self, places: Indices) -> Sizes:
        """The same of some messages."""
        values = self.arrays[VALUE.bit]
        columns = [values.ends if isinstance(values, BytesList) else _offsets(values)]
        columns += [_offsets(self.arrays[bit]) for bit in _HASHED if bit in self.arrays]
        sizes: Sizes = np.add.reduce([ends[places + 1] - ends[places] for ends in columns], dtype=np.int64)
        return sizes + self._average_headers()

    def _average_headers(self) -> int:
        headers = self.arrays.get(HEADERS.bit)
        return headers.nbytes // len(self) if headers is not None and len(self) else 0

    def cuts(self, limits: BatchLimits, max_message_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Start, stop and bytes of runs within limits. Raises MessageTooLarge for a message over its own limit."""
        sizes = self.sizes()
        if int(sizes.max(initial=0)) > max_message_bytes:
            raise MessageTooLarge(size=int(sizes.max()), limit=max_message_bytes)
        return runs_within(np.cumsum(sizes), limits)

    def seal(self, buffers: ReusedBuffers | None = None, **options: Any) -> Frame:
        """The frame of these rows, if it is large in one of the `buffers`; `options` are those of the frame."""
        arrays, low = dict(self.arrays), self.timestamp_ms
        high = low
        if TIMESTAMP.bit in arrays:
            times = to_numbers(arrays[TIMESTAMP.bit])
            low, high = int(times.min()), int(times.max())
            if low == high:
                del arrays[TIMESTAMP.bit]
        for bit in (KEY.bit, HEADERS.bit, EXPIRES_AT.bit, ID.bit):
            if bit in arrays and arrays[bit].null_count == len(self):
                del arrays[bit]
        if buffers is None or arrays[VALUE.bit].nbytes < _LARGE_FRAME_BYTES:
            return seal(arrays, low, high, **options)
        return seal_into(buffers.join, arrays, low, high, **options)


ONE_ROW = Rows({VALUE.bit: pa.nulls(1, VALUE.field.type)}, 0)
"""In the place of a message of which only the frame is kept."""


def renumbered(frame: Frame, *, producer_id: int, producer_epoch: int, base_sequence: int) -> Frame:
    """The same frame with another producer identity."""
    fields = unpack_header(frame)._replace(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence, body_crc=0
    )
    body = memoryview(frame)[len(pack_header(fields)) :]
    header = pack_header(FrameHeader._make(fields._replace(body_crc=body_crc(pack_header(fields), body))))
    return header + body


def runs_within(ends: Sizes, limits: BatchLimits) -> Iterator[tuple[int, int, int]]:
    """Start, stop and bytes of runs within limits; `ends` has the bytes up to the end of each message."""
    start, before, count = 0, 0, len(ends)
    while start < count:
        stop = int(np.searchsorted(ends, before + limits.size_bytes, side="right"))
        stop = max(start + 1, min(stop, start + limits.messages))
        end = int(ends[stop - 1])
        yield start, stop, end - before
        start, before = stop, end


def _large_values(values: Sequence[Any]) -> BytesList | None:
    """None for small ones, and for what is not bytes. The first tells mostly, so small ones cost no look at each."""
    if values and type(values[0]) is bytes and len(values[0]) >= _LARGE_VALUE_BYTES:
        return bytes_list(values, _LARGE_VALUE_BYTES)
    return None


def _array(items: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array:
    try:
        array = list_array(items, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(problem=f"{name}: {error}") from error
    if isinstance(array, pa.ChunkedArray):
        raise InvalidRequest(problem=f"{name}: more than 2 GiB at once")
    return array


def _headers(headers: Headers, count: int) -> pa.Array:
    try:
        if isinstance(headers, Mapping):
            return sparse_headers(count, headers)
        return headers_array([row or None for row in headers])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(problem=f"headers: {error}") from error


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where the items of a binary array begin and end."""
    if len(array) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
