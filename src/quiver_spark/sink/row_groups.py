"""Rows in groups that may share a frame: of one topic, priority and partition, and enough of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.errors import InvalidRequest
from quiver.model.limits import MIB
from quiver.model.names import check_name
from quiver.model.priority import Priority, parse_priority

_FRAME_COLUMNS = ("value", "key", "headers", "timestamp")
_LEVELS = 8
"""More than there are priorities."""
_GATHER_BYTES = 4 * MIB
_GATHER_ROWS = 65_536
_HELD_BYTES = 32 * MIB
"""Of the rows among which groups are gathered."""
_SLICE_ROWS = 500
_MOST_ROWS = 200_000
"""Rows are divided once there are this many for each group, at most that many in all."""
_SMALL_CODES = 2**16

_Codes = npt.NDArray[np.int64]


class RowPlace(NamedTuple):
    """Where rows go."""

    priority: int = Priority.NORMAL
    partition: int | None = None
    """None: chosen by the key, or any."""
    topic: str | None = None
    """None: that of the option."""


class RowGroup(NamedTuple):
    """Rows that go to the same place."""

    rows: pa.RecordBatch
    place: RowPlace = RowPlace()


def row_groups(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[RowGroup]:
    """The rows in groups large enough for a frame; the order within each partition and priority is kept."""
    gathered, rest, fewest, size = GatheredGroups(), iter(batches), 1, 0
    while (batch := _joined_until(rest, columns, fewest)) is not None:
        groups, bytes_each = _split(batch), batch.nbytes / batch.num_rows
        for group in groups:
            yield from gathered.add(group, bytes_each)
        fewest, size = min(len(groups) * _SLICE_ROWS, _MOST_ROWS), size + batch.nbytes
        if size >= _HELD_BYTES:  # a few rows of a group keep all rows in memory that they came with
            yield from gathered.rest()
            size = 0
    yield from gathered.rest()


class GatheredGroups:
    """Puts rows of the same topic, priority and partition together until there are enough for a frame."""

    def __init__(self) -> None:
        self._held: dict[RowPlace, list[pa.RecordBatch]] = {}
        self._rows: dict[RowPlace, int] = {}
        self._bytes: dict[RowPlace, float] = {}

    def add(self, group: RowGroup, bytes_each: float) -> Iterator[RowGroup]:
        """The rows of its place if there are enough now."""
        rows, place = group
        self._held.setdefault(place, []).append(rows)
        self._rows[place] = self._rows.get(place, 0) + rows.num_rows
        self._bytes[place] = self._bytes.get(place, 0.0) + rows.num_rows * bytes_each
        if self._rows[place] >= _GATHER_ROWS or self._bytes[place] >= _GATHER_BYTES:
            yield self._take(place)

    def rest(self) -> Iterator[RowGroup]:
        for place in list(self._held):
            yield self._take(place)

    def _take(self, place: "RowPlace") -> RowGroup:
        del self._rows[place], self._bytes[place]
        return RowGroup(_joined(self._held.pop(place)), place)


def _joined_until(batches: Iterator[pa.RecordBatch], columns: Sequence[str], fewest: int) -> pa.RecordBatch | None:
    """The next batches, joined until there are so many rows, or many bytes; None when there are no more."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch.select(list(columns)))
            rows, size = rows + batch.num_rows, size + held[-1].nbytes
        if rows >= fewest or size >= _HELD_BYTES:
            break
    return _joined(held) if held else None


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _split(batch: pa.RecordBatch) -> list[RowGroup]:
    """By topic, priority and partition, where there are such columns."""
    names = batch.schema.names
    rows = batch.select([name for name in _FRAME_COLUMNS if name in names])
    levels = _levels(batch.column("priority")) if "priority" in names else None
    numbers = _numbers(batch.column("partition")) if "partition" in names else None
    topics, places = _topics(batch.column("topic")) if "topic" in names else ([None], None)
    if levels is None and numbers is None and places is None:
        return [RowGroup(rows)]
    codes = np.full(len(rows), Priority.NORMAL, np.int64) if levels is None else levels
    codes = codes + (0 if numbers is None else (numbers + 1) * _LEVELS)
    codes = codes * len(topics) + (0 if places is None else places)
    rows, used, counts = _sorted(rows, codes)
    found, start = [], 0
    for code, count in zip(used, counts, strict=True):
        code, topic = divmod(code, len(topics))
        partition, level = divmod(code, _LEVELS)
        place = RowPlace(level, partition - 1 if partition else None, topics[topic])
        found.append(RowGroup(rows.slice(start, count), place))
        start += count
    return found


def _sorted(rows: pa.RecordBatch, codes: _Codes) -> tuple[pa.RecordBatch, list[int], list[int]]:
    """The rows in the order of their codes, the codes, and how many rows each has."""
    if codes.max() < _SMALL_CODES:
        codes = codes.astype(np.uint16)  # sorted without comparing them
        counts = np.bincount(codes)
        used = np.flatnonzero(counts)
        counts = counts[used]
    else:
        used, counts = np.unique(codes, return_counts=True)
    if len(used) > 1:
        rows = rows.take(pa.array(np.argsort(codes, kind="stable")))
    return rows, used.tolist(), counts.tolist()


def _topics(column: pa.Array) -> tuple[list[str | None], _Codes]:
    """The topics, and which of them each row goes to."""
    if column.null_count:
        raise InvalidRequest(
            problem="column 'topic' is null in a row: each row needs a topic, or set the option topic"
        )
    coded = column.dictionary_encode()
    topics: list[str | None] = [check_name(name) for name in coded.dictionary.to_pylist()]
    places: _Codes = coded.indices.cast(pa.int64()).to_numpy()
    return topics, places


def _levels(column: pa.Array) -> _Codes:
    """The priority of each row as a number; normal where it is null."""
    coded = column.dictionary_encode()
    table = np.array([*map(parse_priority, coded.dictionary.to_pylist()), Priority.NORMAL], np.int64)
    found: _Codes = table[coded.indices.fill_null(len(table) - 1).to_numpy()]
    return found


def _numbers(column: pa.Array) -> _Codes:
    """The partition of each row; -1 where it is null."""
    least = pc.min(column).as_py()
    if least is not None and least < 0:
        raise InvalidRequest(problem=f"column 'partition': {least} is negative")
    numbers: _Codes = column.cast(pa.int64()).fill_null(-1).to_numpy()
    return numbers
