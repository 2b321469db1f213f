"""Finds traces in the topic that they are written to: by their id, or the newest that fit."""

import asyncio
from functools import partial

import msgspec
import pyarrow.compute as pc

from quiver.model.errors import (
    CorruptData,
    InvalidFrame,
    InvalidRequest,
    OffsetOutOfRange,
    TopicNotFound,
    TraceNotFound,
)
from quiver.model.limits import MIB
from quiver.model.topic import Topic
from quiver.model.trace.span import Span, Trace, TraceFilter, TraceStats
from quiver.partition.partition import Partition
from quiver.records.columns import KEY
from quiver.records.read import open_frame, split_frames
from quiver.structures.murmur2 import partition_for
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.traces.collector import TRACES_TOPIC, TraceCollector

_SLICE_BYTES = MIB
_FIRST_WINDOW_MS = 10 * 60_000
_LONGEST_MS = 60 * 60_000
"""A trace is looked for this long before and after the time that was asked for."""
_MOST_SPANS = 1_000_000
_DIGITS = 32
_decoder = msgspec.json.Decoder(Span)


class TraceStore:
    def __init__(
        self, catalogue: TopicCatalogue, partitions: Partitions, collector: TraceCollector, *, clock: Clock
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._collector = collector
        self._clock = clock

    async def get(self, trace_id: str) -> Trace:
        """A trace with all its spans. Raises TraceNotFound."""
        wanted = check_trace_id(trace_id)
        await self._collector.flush()
        topic = self._topic()
        if topic is not None:
            number = partition_of_trace(wanted, topic.config.partitions)
            spans = await _read(self._partitions.get(topic.id, number), 0, key=wanted.encode())
            if spans:
                return _trace(wanted, spans)
        raise TraceNotFound(trace=wanted)

    async def search(self, wanted: TraceFilter, limit: int) -> list[Trace]:
        """The newest traces that fit, by their start. Only so much of the topic is read as is needed for them."""
        await self._collector.flush()
        topic = self._topic()
        if topic is None:
            return []
        end_ms = self._clock.now_ms() + _LONGEST_MS if wanted.end_ms is None else wanted.end_ms
        least_ms = wanted.start_ms or 0
        window_ms = _FIRST_WINDOW_MS
        while True:
            start_ms = max(least_ms, end_ms - window_ms, 0)
            traces, is_all = await self._since(topic, start_ms)
            found = [trace for trace in traces if start_ms <= trace.start_ms <= end_ms and wanted.fits(trace)]
            if len(found) >= limit or start_ms == least_ms or is_all:
                return sorted(found, key=lambda trace: trace.start_ms, reverse=True)[:limit]
            window_ms *= 8

    async def _since(self, topic: Topic, start_ms: int) -> tuple[list[Trace], bool]:
        """The traces that may have begun since a time, and whether the topic has no others."""
        by_trace: dict[str, list[Span]] = {}
        is_all, count = True, 0
        for _, partition in self._partitions.owned(topic.id):
            offset = await partition.log.offset_for_time(start_ms)
            is_all = is_all and offset <= partition.log.start_offset
            for span in await _read(partition, offset):
                by_trace.setdefault(span.trace_id, []).append(span)
                count += 1
            if count > _MOST_SPANS:
                is_all = True
                break
        return [_trace(trace_id, spans) for trace_id, spans in by_trace.items()], is_all

    async def flush(self) -> None:
        """What happened here before is written when this returns."""
        await self._collector.flush()

    async def stats(self) -> TraceStats:
        return self._collector.stats()

    def _topic(self) -> Topic | None:
        try:
            return self._catalogue.topic(TRACES_TOPIC)
        except TopicNotFound:
            return None


def check_trace_id(trace_id: str) -> str:
    """As it is stored. Raises InvalidRequest."""
    wanted = trace_id.lower()
    if len(wanted) != _DIGITS or wanted.strip("0123456789abcdef"):
        raise InvalidRequest(problem=f"{trace_id[:100]!r} is not a trace id, which has 32 hexadecimal digits")
    return wanted


def partition_of_trace(trace_id: str, count: int) -> int:
    return partition_for(trace_id.encode(), count)


def _trace(trace_id: str, spans: list[Span]) -> Trace:
    """Spans that were written twice, as after a restart, count once."""
    by_id = {span.span_id: span for span in spans}
    return Trace(trace_id=trace_id, spans=sorted(by_id.values(), key=lambda span: (span.end_ms, span.time_ms)))


async def _read(partition: Partition, offset: int, key: bytes | None = None) -> list[Span]:
    """The spans from an offset on, or those with a key. Damaged frames, and rows that are no spans, are left out."""
    found: list[Span] = []
    log, end = partition.log, partition.committed.high_watermark
    position = max(offset, log.start_offset)
    while position < end and len(found) <= _MOST_SPANS:
        try:
            part = await log.read(position, max_bytes=_SLICE_BYTES, end_offset=end)
        except CorruptData as damage:
            position = max(position + 1, int(damage.details["next_offset"]))
            continue
        except OffsetOutOfRange:
            position = max(position + 1, log.start_offset)
            continue
        if part is None:
            break
        try:
            data = await part.read()
        finally:
            part.release()
        spans, following = await asyncio.to_thread(partial(_spans, data, key))
        found += spans
        position = max(position + 1, following)
    return found


def _spans(data: bytes | memoryview, key: bytes | None) -> tuple[list[Span], int]:
    found: list[Span] = []
    following = 0
    try:
        for position, header in split_frames(data):
            following = header.next_offset
            frame = open_frame(data, position, header=header)
            if header.is_control:
                continue
            values = frame.values()
            if key is not None:
                keys = frame.column(KEY)
                if keys is None:
                    continue
                rows = pc.indices_nonzero(pc.equal(keys, key)).to_pylist()
                values = [values[row] for row in rows]
            for value in values:
                try:
                    found.append(_decoder.decode(value or b""))
                except msgspec.DecodeError:  # somebody else has published to the topic
                    continue
    except InvalidFrame:
        pass
    return found, following
