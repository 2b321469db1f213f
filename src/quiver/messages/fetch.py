"""Fetch: frames of many partitions in one response, waiting while there is too little to return."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from quiver.model.errors import CorruptData, OffsetOutOfRange, QuiverError
from quiver.model.limits import MIB, Limits
from quiver.model.position import Position
from quiver.partition.committed_view import CommittedView
from quiver.partition.id_keys import id_keys
from quiver.partition.partition import Partition
from quiver.partition.traffic import Traffic
from quiver.records.header import HEADER_BYTES, unpack_header
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.port import FrameSlice
from quiver.system.clock import Clock
from quiver.system.pace import Pace, Turnstile
from quiver.telemetry.histogram import Histogram
from quiver.topics.partitions import Partitions

_PARTS_PER_LOOK = 16
"""After so many parts the time is looked at, and others run if it is up."""
_HEADERS_SPAN_BYTES = 64 * MIB
"""A part of headers alone is about no more stored bytes than this."""
_HEADERS_BYTES = 1 * MIB
"""And has no more of them: a thread reads each separately."""


class FetchPart(NamedTuple):
    topic_id: int
    partition: int
    offset: int
    max_bytes: int


class FetchedSlice(NamedTuple):
    """What was found for one part. The caller releases the slice."""

    part: FetchPart
    slice: FrameSlice | None
    log_start: int = 0
    high_watermark: int = 0
    last_stable: int = 0
    epoch: int = 0
    aborted: tuple[tuple[int, int], ...] = ()
    error: QuiverError | None = None
    ttl_ms: int | None = None
    removed_count: int | None = None
    """If the offset is below the start of the log: how many messages were removed."""
    traffic: Traffic | None = None
    """Where a slice is counted when it is sent."""


class FetchOptions(msgspec.Struct, frozen=True, array_like=True):
    """What a request asks for in all."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = True
    """Slices end where the first open transaction begins."""
    headers_only: bool = False
    """Slices have the headers of the frames without bodies, and sizes are those of the headers."""
    nearest: bool = False
    """For those who pass fetches on: from the replica of this node, where there is one."""

    def with_(self, **changes: int | bool) -> "FetchOptions":
        return msgspec.structs.replace(self, **changes)

    def is_met_by(self, answer: Sequence[FetchedSlice]) -> bool:
        total = 0
        for fetched in answer:
            if fetched.error is not None:
                return True
            if fetched.slice is not None:
                total += fetched.slice.length
        return total >= self.min_bytes


class _News:
    """Which parts of a request have more to read since they were last taken."""

    def __init__(self) -> None:
        self._changed: set[int] = set()
        self._waiting: asyncio.Future[None] | None = None
        self._watched: list[tuple[CommittedView, Callable[[], None]]] = []

    def watch(self, number: int, committed: CommittedView) -> None:
        wake = partial(self.note, number)
        committed.watch(wake)
        self._watched.append((committed, wake))

    def stop(self) -> None:
        for committed, wake in self._watched:
            committed.unwatch(wake)

    def take(self) -> set[int]:
        changed, self._changed = self._changed, set()
        return changed

    async def within(self, seconds: float) -> bool:
        """Waits until there is something; False when there is nothing in time."""
        if not self._changed:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(seconds, self._wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
        return bool(self._changed)

    def note(self, number: int) -> None:
        self._changed.add(number)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def release(answer: Sequence[FetchedSlice]) -> None:
    for fetched in answer:
        if fetched.slice is not None:
            fetched.slice.release()


def _count(answer: Sequence[FetchedSlice]) -> None:
    for fetched in answer:
        if fetched.slice is not None and fetched.traffic is not None:
            fetched.traffic.fetched_messages += max(0, fetched.slice.end_offset - fetched.part.offset)
            fetched.traffic.fetched_bytes += fetched.slice.length
            if not fetched.slice.is_in_file:
                fetched.traffic.fetched_copied_bytes += fetched.slice.length


class Fetch:
    def __init__(self, partitions: Partitions, *, clock: Clock, limits: Limits) -> None:
        self._partitions = partitions
        self._clock = clock
        self._limits = limits
        self._turnstile = Turnstile()
        self.wait_seconds = Histogram()
        """How long fetches waited that found too little at first."""

    async def fetch(self, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        """Returns as soon as there are min_bytes or an error, or after max_wait_ms."""
        wanted = options.with_(max_bytes=min(options.max_bytes, self._limits.fetch_bytes))
        deadline = self._clock.monotonic() + wanted.max_wait_ms / 1000
        answer = await self._read(parts, wanted)
        if wanted.max_wait_ms > 0 and not wanted.is_met_by(answer):
            release(answer)
            news = _News()
            try:
                self._watch(answer, news)
                answer = await self._read_when_more(answer, wanted, deadline, news)
            finally:
                news.stop()
                self.wait_seconds.observe(self._clock.monotonic() + wanted.max_wait_ms / 1000 - deadline)
        _count(answer)
        return answer

    async def _read_when_more(
        self, answer: list[FetchedSlice], wanted: FetchOptions, deadline: float, news: "_News"
    ) -> list[FetchedSlice]:
        """Goes on from an answer that is too little, whose slices are released."""
        while True:
            remaining = deadline - self._clock.monotonic()
            is_last = remaining <= 0 or not await news.within(remaining)
            await self._turnstile.enter()
            # Nothing is new in the others, of which there may be thousands.
            again = sorted(news.take() | {n for n, fetched in enumerate(answer) if fetched.slice is not None})
            for n, fetched in zip(again, await self._read([answer[n].part for n in again], wanted), strict=True):
                answer[n] = fetched
            if is_last or wanted.is_met_by(answer):
                return answer
            release(answer)

    async def find_offset(
        self, topic_id: int, partition: int, position: Position, *, read_committed: bool = True
    ) -> int:
        """The current offset of a position, for readers of committed messages or of all messages."""
        found = self._partitions.get(topic_id, partition)
        log = found.log
        end = found.committed.last_stable if read_committed else found.committed.high_watermark
        match position.kind:
            case "earliest":
                return log.start_offset
            case "latest":
                return end
            case "time":
                return min(await log.offset_for_time(position.value), end)
            case "offset":
                if log.start_offset <= position.value <= found.committed.high_watermark:
                    return position.value
                raise _out_of_range(found, partition, position.value)

    def find_id(self, topic_id: int, partition: int, id: bytes) -> int | None:
        """The offset of the message with an id, within the topic's window."""
        known = self._partitions.get(topic_id, partition).tables.message_ids
        [key] = id_keys([id])
        return None if key is None else known.find({key: 0}.keys(), self._clock.now_ms()).get(key)

    def _watch(self, answer: Sequence[FetchedSlice], news: "_News") -> None:
        """From here on; what has changed since it was read is news too."""
        for number, fetched in enumerate(answer):
            try:
                committed = self._partitions.get(fetched.part.topic_id, fetched.part.partition).committed
            except QuiverError:
                news.note(number)
                continue
            news.watch(number, committed)
            if (committed.high_watermark, committed.last_stable) != (fetched.high_watermark, fetched.last_stable):
                news.note(number)

    async def _read(self, parts: Sequence[FetchPart], wanted: FetchOptions) -> list[FetchedSlice]:
        answer: list[FetchedSlice] = []
        budget, pace = wanted.max_bytes, Pace()
        try:
            for number, part in enumerate(parts):
                if not number % _PARTS_PER_LOOK:
                    await pace.turn()
                most, is_first = min(part.max_bytes, budget), budget == wanted.max_bytes
                fetched = self._read_nothing(part, wanted.read_committed, has_room=most > 0 or is_first)
                if fetched is None:
                    fetched = await self._read_part(part, most, is_first, wanted)
                answer.append(fetched)
                if fetched.slice is not None:
                    budget -= fetched.slice.length
        except BaseException:
            release(answer)
            raise
        return answer

    def _read_nothing(self, part: FetchPart, read_committed: bool, *, has_room: bool) -> FetchedSlice | None:
        """For a part that has nothing to read, or for which there is no room; None when that must be looked at."""
        try:
            partition = self._partitions.get(part.topic_id, part.partition)
        except QuiverError as error:
            return FetchedSlice(part, None, error=error)
        committed = partition.committed
        high_watermark, last_stable, start = (
            committed.high_watermark,
            committed.last_stable,
            partition.log.start_offset,
        )
        end = last_stable if read_committed else high_watermark
        if part.offset > high_watermark or (has_room and (part.offset < end or part.offset < start)):
            return None
        return FetchedSlice(
            part, None, start, high_watermark, last_stable, partition.leader_epoch, ttl_ms=partition.ttl_ms
        )

    async def _read_part(self, part: FetchPart, max_bytes: int, is_first: bool, wanted: FetchOptions) -> FetchedSlice:
        try:
            partition = self._partitions.get(part.topic_id, part.partition)
            log = partition.log
            committed = partition.committed
            high_watermark, last_stable = committed.high_watermark, committed.last_stable
            if part.offset > high_watermark:
                raise _out_of_range(partition, part.partition, part.offset)
            # A slice has at least one frame: once the response has something, an empty budget means no more slices.
            found = None
            end = last_stable if wanted.read_committed else high_watermark
            span = _HEADERS_SPAN_BYTES if wanted.headers_only else max(max_bytes, 1)
            if (max_bytes > 0 or is_first) and (part.offset < end or part.offset < log.start_offset):
                found = await log.read(part.offset, max_bytes=span, end_offset=end)
                if found is not None and part.offset < log.start_offset:
                    found.release()  # removed meanwhile: its aborts may be forgotten
                    raise _out_of_range(partition, part.partition, part.offset)
            size_bytes = 0 if found is None else found.length
            if found is not None and wanted.headers_only:
                found = await _headers_of(found, max_bytes, partition.name)
        except OffsetOutOfRange as error:
            start = log.start_offset
            if part.offset >= start:
                return FetchedSlice(part, None, error=error)
            removed_count = log.removed_count(max(0, part.offset))
            return FetchedSlice(part, None, log_start=start, error=error, removed_count=removed_count)
        except QuiverError as error:
            return FetchedSlice(part, None, error=error)
        aborted = committed.aborted_in(part.offset, size_bytes) if size_bytes and wanted.read_committed else ()
        return FetchedSlice(
            part,
            found,
            log_start=log.start_offset,
            high_watermark=high_watermark,
            last_stable=last_stable,
            epoch=partition.leader_epoch,
            aborted=tuple((each.producer_id, each.first_offset) for each in aborted),
            ttl_ms=partition.ttl_ms,
            traffic=partition.traffic,
        )


async def _headers_of(found: FrameSlice, max_bytes: int, name: str) -> FrameSlice:
    """The headers of a slice, which is released."""
    try:
        headers = await found.read_headers(min(max_bytes, _HEADERS_BYTES))
    finally:
        found.release()
    if not headers:
        raise CorruptData(where=name, problem="a header has changed since it was found", next_offset=found.end_offset)
    return MemorySlice([headers], unpack_header(headers, len(headers) - HEADER_BYTES).next_offset)


def _out_of_range(partition: Partition, number: int, offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        offset=offset,
        topic=partition.name.rpartition("-")[0],
        partition=number,
        earliest=partition.log.start_offset,
        latest=partition.committed.high_watermark,
    )
