"""Spans as rows of the topic of traces: a column at a time, for many messages at once. Pure.

A row is the JSON of a `Span`. What is the same for many rows (the event, its time, the topic) is encoded once; ids,
offsets and keys are put between by Arrow.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.trace.span import SpanEvent
from quiver.records.arrow_arrays import number_array
from quiver.records.build import list_array

Digits = npt.NDArray[np.uint8]
"""A row of hexadecimal digits per message."""
Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

TRACE_DIGITS, SPAN_DIGITS = 32, 16
_HEX_PAIRS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SECOND_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT, _SECOND_SHIFT = np.uint64(31), np.uint64(27)


class TracedMessages(NamedTuple):
    """Sampled messages of one partition, in order."""

    topic: str
    partition: int
    offsets: Numbers
    traces: Digits
    keys: list[bytes] | None
    """The `key_json` of each; None if no message has one."""

    def take(self, chosen: Numbers) -> "TracedMessages":
        keys = None if self.keys is None else [self.keys[place] for place in chosen.tolist()]
        return self._replace(offsets=self.offsets[chosen], traces=self.traces[chosen], keys=keys)

    def after(self, count: int) -> "TracedMessages":
        """Without the first ones."""
        keys = None if self.keys is None else self.keys[count:]
        return self._replace(offsets=self.offsets[count:], traces=self.traces[count:], keys=keys)

    def joined(self, more: "TracedMessages") -> "TracedMessages":
        keys = None
        if self.keys is not None or more.keys is not None:
            keys = (self.keys or [b""] * len(self.offsets)) + (more.keys or [b""] * len(more.offsets))
        return self._replace(
            offsets=np.concatenate((self.offsets, more.offsets)),
            traces=np.concatenate((self.traces, more.traces)),
            keys=keys,
        )

    def span_hashes(self) -> Hashes:
        """From which the ids of their spans are computed."""
        name = f"{self.topic}/{self.partition}".encode()
        found = _mixed(self.offsets.view(np.uint64), _number(name))
        words = np.ascontiguousarray(self.traces).view(np.uint64)
        for column in range(words.shape[1]):
            found = _mixed(found, words[:, column])
        return found


def span_ids(hashes: Hashes, codes: Any) -> Digits:
    """The same ones whenever they are computed: a span that is written or exported twice is recognised.

    `codes` are the `span_code` of the spans, or one for all.
    """
    found = _mixed(hashes, codes)
    found[found == 0] = 1
    pairs = _HEX_PAIRS[found.byteswap().view(np.uint8)]
    return pairs.view(np.uint8).reshape(-1, SPAN_DIGITS)


def _number(name: bytes) -> Any:
    return np.uint64(int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little"))


@lru_cache(1024)
def span_code(event: str, number: int = 0) -> Any:
    """Of the event of a message that is the one of that number."""
    return _number(f"{event}/{number}".encode())


ARRIVAL_CODE = span_code("arrival")


class SpanRows(NamedTuple):
    """Rows that are ready to be written."""

    traces: Digits
    values: pa.BinaryArray
    end_ms: Numbers


class SharedFields(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What spans of many messages have in common, or of all messages of a frame."""

    event_type: SpanEvent
    time_ms: int
    duration_ms: int = 0
    topic: str
    partition: int
    group: str = ""
    consumer: str = ""
    attempt: int = 0
    error: str = ""


class SpanGroup(NamedTuple):
    """Some of the messages in a row, and what their spans have in common."""

    message_count: int
    fields: SharedFields


def span_rows(messages: TracedMessages, ids: Digits, parents: Digits, groups: Sequence[SpanGroup]) -> SpanRows:
    """`groups` cover the messages, one after the other."""
    counts = np.array([group.message_count for group in groups])
    shared = list_array([msgspec.json.encode(group.fields)[1:-1] for group in groups], pa.binary())
    ends = np.array([group.fields.time_ms + group.fields.duration_ms for group in groups], np.int64)
    chosen = np.repeat(np.arange(len(groups)), counts)
    values = pc.binary_join_element_wise(
        _text('{"trace_id":"'),
        binary_rows(messages.traces),
        _text('","span_id":"'),
        binary_rows(ids),
        _text('","parent_span_id":"'),
        binary_rows(parents),
        _text('",'),
        shared.take(number_array(chosen)),
        _text(',"offset":'),
        number_array(messages.offsets).cast(pa.string()).cast(pa.binary()),
        _text("") if messages.keys is None else list_array(messages.keys, pa.binary()),
        _text("}"),
        _text(""),
    )
    return SpanRows(messages.traces, values, ends[chosen])


def key_json(key: str) -> bytes:
    """The key of a message as it follows the other fields of a span."""
    return b',"key":' + msgspec.json.encode(key) if key else b""


def binary_rows(rows: npt.NDArray[np.uint8]) -> pa.Array:
    count, width = rows.shape
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(rows))]
    )


def _text(text: str) -> pa.Scalar:
    return list_array([text.encode()], pa.binary())[0]


def _mixed(hashes: Hashes, more: Any) -> Hashes:
    """Every bit of both changes about half of the bits of the result."""
    found: Hashes = (hashes ^ more) * _MULTIPLIER
    found ^= found >> _SHIFT
    found *= _SECOND_MULTIPLIER
    found ^= found >> _SECOND_SHIFT
    return found
