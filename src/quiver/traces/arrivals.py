"""The spans of the append of sampled messages, of many frames at once. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quiver.model.trace.span import SpanEvent
from quiver.outbox.outbox import source_of
from quiver.records.header import FrameHeader
from quiver.records.traced.column import PARENT_BYTES
from quiver.records.traced.entries import are_sampled
from quiver.traces.sampled_rows import SampledRows
from quiver.traces.span_rows import (
    ARRIVAL_CODE,
    SharedFields,
    SpanGroup,
    SpanRows,
    TracedMessages,
    key_json,
    span_ids,
    span_rows,
)

_TRACE, _SPAN = slice(3, 35), slice(36, 52)
"""Places in the header."""


class Arrivals(NamedTuple):
    messages: TracedMessages
    rows: SpanRows


def arrivals(topic: str, partition: int, frames: Sequence[SampledRows]) -> Arrivals | None:
    """Of frames of one partition, in order. None if none of their messages is sampled."""
    parents = np.frombuffer(b"".join([frame.parents for frame in frames]), np.uint8).reshape(-1, PARENT_BYTES)
    sampled = are_sampled(parents)
    if not sampled.any():
        return None
    frame_numbers = np.repeat(np.arange(len(frames)), [len(frame.offsets) for frame in frames])[sampled]
    counts = np.bincount(frame_numbers, minlength=len(frames)).tolist()
    parents = parents[sampled]
    messages = TracedMessages(
        topic,
        partition,
        np.concatenate([frame.offsets for frame in frames])[sampled],
        np.ascontiguousarray(parents[:, _TRACE]),
        _keys(frames, sampled),
    )
    times = np.concatenate([_times(frame) for frame in frames])[sampled] if _has_times(frames) else None
    groups = list(_groups(messages, frames, counts, times))
    ids = span_ids(messages.span_hashes(), ARRIVAL_CODE)
    return Arrivals(messages, span_rows(messages, ids, parents[:, _SPAN], groups))


def _groups(
    messages: TracedMessages,
    frames: Sequence[SampledRows],
    counts: Sequence[int],
    times: npt.NDArray[np.int64] | None,
) -> Iterator[SpanGroup]:
    start = 0
    for frame, count in zip(frames, counts, strict=True):
        if not count:
            continue
        if frame.timestamps_ms is None or times is None:
            yield SpanGroup(count, _fields(messages, frame.header, frame.header.min_timestamp_ms))
        else:
            for time_ms in times[start : start + count].tolist():
                yield SpanGroup(1, _fields(messages, frame.header, time_ms))
        start += count


def _fields(messages: TracedMessages, header: FrameHeader, timestamp_ms: int) -> SharedFields:
    """The append: from the time that the producer gave, or from when a move brought the message."""
    event: SpanEvent = "publish.persisted"
    start_ms = min(timestamp_ms, header.append_time_ms)
    source = source_of(header.producer_id)
    if source is not None:
        if source[0] == "delays":
            event = "delay.fired"
        else:
            event = "dlq.routed" if source[0] == "dead_letters" else event
            start_ms = header.append_time_ms
    return SharedFields(
        event_type=event,
        time_ms=start_ms,
        duration_ms=header.append_time_ms - start_ms,
        topic=messages.topic,
        partition=messages.partition,
    )


def _has_times(frames: Sequence[SampledRows]) -> bool:
    return any(frame.timestamps_ms is not None for frame in frames)


def _times(frame: SampledRows) -> npt.NDArray[np.int64]:
    if frame.timestamps_ms is not None:
        return frame.timestamps_ms
    return np.full(len(frame.offsets), frame.header.min_timestamp_ms, np.int64)


def _keys(frames: Sequence[SampledRows], sampled: npt.NDArray[np.bool_]) -> list[bytes] | None:
    if all(frame.keys is None for frame in frames):
        return None
    found: list[bytes] = []
    for frame in frames:
        found += [b""] * len(frame.offsets) if frame.keys is None else map(key_json, frame.keys)
    return [key for key, is_sampled in zip(found, sampled.tolist(), strict=True) if is_sampled]
