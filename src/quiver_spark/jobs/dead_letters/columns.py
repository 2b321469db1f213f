"""The columns of a dead letter, made from those of its message in the dead-letter topic. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.dead_letter import HEADER_NAMES, HEADER_PREFIX, SUFFIX
from quiver.model.errors import InvalidRequest
from quiver.model.times import parse_time_ms
from quiver_spark.source.columns import MESSAGE_SCHEMA, TIME

DEAD_LETTER_TYPES = {
    "dlq_topic": "string",
    "dlq_partition": "int",
    "dlq_offset": "bigint",
    "id": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "group": "string",
    "reason": "string",
    "error": "string",
    "attempts": "int",
    "appended_at": "timestamp",
    "first_delivered": "timestamp",
    "died_at": "timestamp",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "map<string,binary>",
    "priority": "string",
}
"""`dlq_topic`, `dlq_partition` and `dlq_offset` say where a dead letter is; `topic`, `partition` and
`offset` say where its message was. `died_at` is when it came to the dead-letter topic; `headers` are those of the
message."""
DEAD_LETTER_COLUMNS = tuple(DEAD_LETTER_TYPES)
_ARROW_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": TIME,
    "binary": pa.binary(),
    "map<string,binary>": MESSAGE_SCHEMA.field("headers").type,
}
_MESSAGE_COLUMNS = {
    "dlq_topic": "topic",
    "dlq_partition": "partition",
    "dlq_offset": "offset",
    "died_at": "append_time",
    "timestamp": "timestamp",
    "key": "key",
    "value": "value",
    "priority": "priority",
}
_PLACE = ("topic", "partition", "offset")
_LARGEST = {"int": 2**31, "bigint": 10**18}

Integers = npt.NDArray[np.int64]


def columns_in(sql: str | None) -> set[str]:
    """The columns of a dead letter that an expression may use: those it has as a word, or all for a star."""
    text = (sql or "").lower()
    words = set("".join(mark if mark.isalnum() or mark == "_" else " " for mark in text).split())
    return set(DEAD_LETTER_COLUMNS) if "*" in text else words & set(DEAD_LETTER_COLUMNS)


def message_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Which columns of a message are needed for these of a dead letter, in the order of the source."""
    wanted = {*_PLACE, *(_MESSAGE_COLUMNS.get(name, "headers") for name in columns if name != "id")}
    return tuple(name for name in MESSAGE_SCHEMA.names if name in wanted)


def dead_letter_batch(messages: pa.RecordBatch, columns: Sequence[str] = DEAD_LETTER_COLUMNS) -> pa.RecordBatch:
    """Messages of dead-letter topics as dead letters.

    A column is null when the headers do not have it, or not in a readable form. A dead letter that does not name its
    topic gets the one that its dead-letter topic is named after.
    """
    needs_headers = "headers" in message_columns(columns)
    headers = _Headers(messages.column("headers")) if needs_headers else None
    arrays = [_column(name, messages, headers) for name in columns]
    schema = pa.schema([(name, _ARROW_TYPES[DEAD_LETTER_TYPES[name]]) for name in columns])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, messages: pa.RecordBatch, headers: "_Headers | None") -> pa.Array:
    kind = DEAD_LETTER_TYPES[name]
    if name in _MESSAGE_COLUMNS:
        return messages.column(_MESSAGE_COLUMNS[name]).cast(_ARROW_TYPES[kind])
    if name == "id":
        place = (messages.column(part).cast(pa.string()) for part in _PLACE[1:])
        return pc.binary_join_element_wise(*place, ":")
    assert headers is not None
    match kind:
        case "string":
            found = headers.parsed(name, lambda text: text.decode(errors="replace") or None, pa.string())
            return found if name != "topic" else pc.coalesce(found, _named_after(messages.column("topic")))
        case "int" | "bigint":
            return headers.parsed(name, lambda text: _number(text, _LARGEST[kind]), _ARROW_TYPES[kind])
        case "timestamp":
            return headers.parsed(name, _time_us, TIME)
        case _:
            return headers.own()


def _named_after(topics: pa.Array) -> pa.Array:
    return pc.if_else(pc.ends_with(topics, SUFFIX), pc.utf8_slice_codeunits(topics, 0, -len(SUFFIX)), topics)


class _Headers:
    """The headers of a batch, which lie one after the other in two arrays."""

    def __init__(self, headers: pa.MapArray) -> None:
        self._headers = headers
        self._borders: Integers = headers.offsets.to_numpy().astype(np.int64)
        self._first = int(self._borders[0]) if len(headers) else 0
        count = int(self._borders[-1]) - self._first if len(headers) else 0
        self._keys, self._values = (part.slice(self._first, count) for part in (headers.keys, headers.items))
        self._names = sorted(HEADER_NAMES)
        codes = pc.index_in(self._keys, pa.array(self._names, pa.string()))
        self._codes: npt.NDArray[np.int32] = pc.fill_null(codes, -1).to_numpy()

    def parsed(self, field: str, parse: Callable[[bytes], Any], kind: pa.DataType) -> pa.Array:
        """One header as a column; each value that occurs is parsed once."""
        places = np.flatnonzero(self._codes == self._names.index(HEADER_PREFIX + field))
        rows = np.full(len(self._headers), -1, np.int64)
        rows[self._rows(places)] = places
        texts = self._values.take(pa.array(rows, mask=rows < 0)).dictionary_encode()
        values = [parse(text) for text in texts.dictionary.to_pylist()]
        return pa.array(values, kind).take(texts.indices)

    def own(self) -> pa.Array:
        """All others; null where there are none."""
        places = np.flatnonzero(self._codes < 0)
        counts = np.bincount(self._rows(places), minlength=len(self._headers))
        borders = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        at = pa.array(places)
        found = pa.MapArray.from_arrays(pa.array(borders), self._keys.take(at), self._values.take(at))
        return pc.if_else(pa.array(counts > 0), found, pa.nulls(len(found), found.type))

    def _rows(self, places: Integers) -> Integers:
        """The row that each header is of."""
        return self._borders.searchsorted(places + self._first, side="right") - 1


def _number(text: bytes, below: int) -> int | None:
    if not text.isdigit() or len(text) > 18:
        return None
    number = int(text)
    return number if number < below else None


def _time_us(text: bytes) -> int | None:
    try:
        return 1000 * parse_time_ms(text.decode(errors="replace"))
    except InvalidRequest:
        return None
