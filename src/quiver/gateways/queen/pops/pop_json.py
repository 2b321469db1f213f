"""Runs of messages as JSON, all of a run at once."""

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from quiver.gateways.queen.json_rows import OFFSET_BITS, hex_column, json_rows
from quiver.gateways.queen.messages import TRANSACTION_HEADER
from quiver.records.arrow_arrays import to_numbers
from quiver.records.columns import HEADERS, KEY, VALUE
from quiver.records.read import OpenFrame

_raw_lines = msgspec.json.Decoder(msgspec.Raw).decode_lines


class PlainRun(NamedTuple):
    """A run of one partition whose messages need nothing special: no traces, no names that JSON escapes."""

    key: bytes
    offsets: list[int]
    transactions: pa.Array | None
    """None: their ids."""
    values: pa.Array

    def json(self, before: bytes, after: bytes) -> bytes:
        """The messages, with commas in between. `before` is what an id begins with, `after` what all of them have in
        common after their data."""
        ends = hex_column(self.offsets)
        named = [before, ends] if self.transactions is None else [self.transactions]
        shown = [b'{"id":"' + before, ends, b'","transactionId":"', *named, b'","traceId":null,"data":', self.values]
        return json_rows([*shown, after])

    def _ends(self) -> list[int]:
        """The last part of each id."""
        if not self.offsets[0] >> OFFSET_BITS:
            return self.offsets
        return [offset & (1 << OFFSET_BITS) - 1 for offset in self.offsets]

    def transaction_ids(self, before: bytes) -> list[str]:
        if self.transactions is None:
            return list(map((before.decode() + "%012x").__mod__, self._ends()))
        return b"\n".join(self.transactions.to_pylist()).decode().split("\n")


def plain_run(frame: OpenFrame) -> PlainRun | None:
    """None for a run that has to be looked at message by message."""
    offsets = list(frame.offsets())
    keys, headers, values = frame.column(KEY), frame.column(HEADERS), frame.column(VALUE)
    if keys is None or values is None or keys.null_count or values.null_count:
        return None
    key = keys[0].as_py()
    if not _are_all(keys, key) or offsets[0] >> OFFSET_BITS != offsets[-1] >> OFFSET_BITS:
        return None
    transactions = None if headers is None else _transactions(headers)
    if headers is not None and transactions is None:
        return None
    return PlainRun(key, offsets, transactions, values) if _are_json(values.to_pylist()) else None


def _are_all(texts: pa.Array, wanted: bytes) -> bool:
    """Whether every text of an array without nulls is this one."""
    kind = np.int64 if texts.type in (pa.large_binary(), pa.large_string()) else np.int32
    _, places, content = texts.buffers()
    ends = np.frombuffer(places, kind, len(texts) + 1, texts.offset * np.dtype(kind).itemsize)
    if not bool(np.all(np.diff(ends) == len(wanted))):
        return False
    return not wanted or content.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes() == wanted * len(texts)


def _transactions(headers: pa.MapArray) -> pa.Array | None:
    """Of messages that have this header and no other; None if one of them has something else."""
    ends = to_numbers(headers.offsets)
    if headers.null_count or not bool(np.all(np.diff(ends) == 1)):
        return None
    first, count = int(ends[0]), len(headers)
    names, items = headers.keys.slice(first, count), headers.items.slice(first, count)
    if items.null_count or not _are_all(names, TRANSACTION_HEADER.encode()):
        return None
    try:
        text = b"".join(items.to_pylist()).decode()
    except UnicodeDecodeError:
        return None
    return items if text.isprintable() and '"' not in text and "\\" not in text else None


def _are_json(values: list[bytes]) -> bool:
    """Whether each is JSON by itself, in one line: the lines of all of them are."""
    joined = b"\n".join(values)
    try:
        if not joined.isascii():
            joined.decode()
        return joined.count(b"\n") == len(values) - 1 and len(_raw_lines(joined)) == len(values)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
