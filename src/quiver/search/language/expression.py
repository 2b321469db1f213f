"""An expression, ready to be evaluated over columns of messages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.limits import MIB
from quiver.records.arrow_arrays import number_array
from quiver.records.build import list_array
from quiver.search.language.compiler import Compiler
from quiver.search.language.fields import ReadColumn, value_reader
from quiver.search.language.prefilter import clauses, possible
from quiver.search.language.row import JsonValue, to_text
from quiver.search.language.syntax import Source

_CHUNK_ROWS = 2_048
_CHUNK_BYTES = MIB
_MATCHED_CHARACTERS = 64 * 1024
"""`matches` looks at the beginning of a longer text, so that no pattern takes long."""


class Columns(NamedTuple):
    """Messages of one partition and priority, in columns."""

    value: pa.Array
    key: pa.Array | None
    headers: pa.Array | None
    timestamps: pa.Array | int
    """Epoch milliseconds, one for all or for each."""
    offsets: Sequence[int]
    partition: int
    priority: str


class Expression:
    """Compiled once, evaluated for any number of messages; has no state of its own, so threads may share it."""

    def __init__(self, text: str) -> None:
        """InvalidRequest, with the column, for what is not part of the language."""
        source = Source(text)
        compiler = Compiler(source)
        self.text = text
        self._fits = compiler.compile(source.tree)
        self._names = compiler.names
        self._patterns = compiler.patterns
        self._clauses = clauses(source.tree)
        self._read_values = value_reader(source.tree)

    def select(self, columns: Columns) -> Iterator[list[int]]:
        """The rows that fit, in order, chunk by chunk: after each the caller may stop."""
        count = len(columns.value)
        size = columns.value.nbytes
        step = max(1, min(count, count * _CHUNK_BYTES // max(size, 1)))
        for start in range(0, count, step):
            places = self._possible(columns, start, min(step, count - start))
            for first in range(0, max(1, len(places)), _CHUNK_ROWS):
                yield self._fitting(columns, places[first : first + _CHUNK_ROWS])

    def _fitting(self, columns: Columns, places: "np.ndarray[Any, Any]") -> list[int]:
        if not len(places):
            return []
        parts = self._parts(columns, places)
        for text, pattern in self._patterns:
            parts.append(_matched(list(map(text, zip(*parts, strict=False))), pattern))
        return list(compress(places.tolist(), map(self._fits, zip(*parts, strict=False))))

    def _possible(self, columns: Columns, start: int, count: int) -> "np.ndarray[Any, Any]":
        if not self._clauses:
            return np.arange(start, start + count)
        key = columns.key
        cut = {"value": columns.value.slice(start, count), "key": None if key is None else key.slice(start, count)}
        mask = possible(self._clauses, cut)
        if mask is False:
            return np.empty(0, np.int64)
        if mask is None:
            return np.arange(start, start + count)
        return np.flatnonzero(mask) + start

    def _parts(self, columns: Columns, places: "np.ndarray[Any, Any]") -> list[Iterable[JsonValue]]:
        """The parts of a row as columns of their own, in their order. One that is not read is None for ever."""
        names, is_whole = self._names, places[-1] - places[0] + 1 == len(places)
        taken = None if is_whole else number_array(places)

        def part(name: str, column: pa.Array | None, read: ReadColumn) -> Iterable[JsonValue]:
            if name not in names or column is None:
                return repeat(None)
            rows = column.slice(places[0], len(places)) if taken is None else column.take(taken)
            return read(rows.to_pylist())

        times = columns.timestamps
        offsets = columns.offsets
        parts: list[Iterable[JsonValue]] = [
            part("value", columns.value, self._read_values),
            part("text", columns.value, _each(to_text)),
            part("key", columns.key, _each(to_text)),
            part("headers", columns.headers, _each(_texts)) if columns.headers is not None else repeat({}),
            repeat(times) if isinstance(times, int) else part("timestamp", times, _each(int)),
            [offsets[place] for place in places.tolist()] if "offset" in names else repeat(None),
            repeat(columns.partition),
            [columns.priority] * len(places),
        ]
        return parts


def _each(read: Callable[[Any], JsonValue]) -> ReadColumn:
    return lambda rows: [read(row) for row in rows]


def _texts(headers: Iterable[tuple[str, bytes]] | None) -> dict[str, str | None]:
    return {name: to_text(data) for name, data in headers or ()}


def _matched(texts: list[Any], pattern: str) -> list[bool]:
    """By text, whether a pattern finds something in it; false for what is not text."""
    cut = [text[:_MATCHED_CHARACTERS].encode(errors="replace") if type(text) is str else None for text in texts]
    array = list_array(cut, pa.binary()).view(pa.string())
    return [found is True for found in pc.match_substring_regex(array, pattern).to_pylist()]
