"""Fetch: frames of many partitions in one response, waiting while there is too little to return."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from quiver.model.errors import OffsetOutOfRange, QuiverError
from quiver.model.limits import Limits
from quiver.model.position import Position
from quiver.partition.partition import Partition
from quiver.storage.port import FrameSlice
from quiver.system.clock import Clock
from quiver.system.pace import Turnstile, paced
from quiver.topics.partitions import Partitions


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


class Fetch:
    def __init__(self, partitions: Partitions, *, clock: Clock, limits: Limits) -> None:
        self._partitions = partitions
        self._clock = clock
        self._limits = limits
        self._turnstile = Turnstile()

    async def fetch(
        self,
        parts: Sequence[FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        read_committed: bool = True,
    ) -> list[FetchedSlice]:
        """Returns as soon as there are min_bytes or an error, or after max_wait_ms.

        With `read_committed` slices end where the first open transaction begins.
        """
        max_bytes = min(max_bytes, self._limits.fetch_bytes)
        deadline = self._clock.monotonic() + max_wait_ms / 1000
        news = asyncio.Event()
        watched = self._watch(parts, news)
        try:
            while True:
                news.clear()
                answer = await self._read(parts, max_bytes, read_committed)
                total = sum(fetched.slice.length for fetched in answer if fetched.slice is not None)
                remaining = deadline - self._clock.monotonic()
                if total >= min_bytes or remaining <= 0 or any(fetched.error for fetched in answer):
                    return answer
                for fetched in answer:
                    if fetched.slice is not None:
                        fetched.slice.release()
                if not await _within(news, remaining):
                    min_bytes = 0
                await self._turnstile.enter()
        finally:
            for partition in watched:
                partition.committed.unwatch(news.set)

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

    def _watch(self, parts: Sequence[FetchPart], news: asyncio.Event) -> list[Partition]:
        watched = []
        for part in parts:
            try:
                partition = self._partitions.get(part.topic_id, part.partition)
            except QuiverError:
                continue
            partition.committed.watch(news.set)
            watched.append(partition)
        return watched

    async def _read(self, parts: Sequence[FetchPart], max_bytes: int, read_committed: bool) -> list[FetchedSlice]:
        answer: list[FetchedSlice] = []
        budget = max_bytes
        try:
            async for part in paced(parts):
                is_first = budget == max_bytes
                fetched = await self._read_part(part, min(part.max_bytes, budget), is_first, read_committed)
                answer.append(fetched)
                if fetched.slice is not None:
                    budget -= fetched.slice.length
        except BaseException:
            for fetched in answer:
                if fetched.slice is not None:
                    fetched.slice.release()
            raise
        return answer

    async def _read_part(self, part: FetchPart, max_bytes: int, is_first: bool, read_committed: bool) -> FetchedSlice:
        try:
            partition = self._partitions.get(part.topic_id, part.partition)
            log = partition.log
            committed = partition.committed
            high_watermark, last_stable = committed.high_watermark, committed.last_stable
            if part.offset > high_watermark:
                raise _out_of_range(partition, part.partition, part.offset)
            # A slice has at least one frame: once the response has something, an empty budget means no more slices.
            found = None
            end = last_stable if read_committed else high_watermark
            if (max_bytes > 0 or is_first) and (part.offset < end or part.offset < log.start_offset):
                found = await log.read(part.offset, max_bytes=max(max_bytes, 1), end_offset=end)
                if found is not None and part.offset < log.start_offset:
                    found.release()  # removed meanwhile: its aborts may be forgotten
                    raise _out_of_range(partition, part.partition, part.offset)
        except OffsetOutOfRange as error:
            start = log.start_offset
            if part.offset >= start:
                return FetchedSlice(part, None, error=error)
            removed_count = log.removed_count(max(0, part.offset))
            return FetchedSlice(part, None, log_start=start, error=error, removed_count=removed_count)
        except QuiverError as error:
            return FetchedSlice(part, None, error=error)
        aborted = committed.aborted_in(part.offset, found.length) if found is not None and read_committed else ()
        return FetchedSlice(
            part,
            found,
            log_start=log.start_offset,
            high_watermark=high_watermark,
            last_stable=last_stable,
            epoch=partition.leader_epoch,
            aborted=tuple((each.producer_id, each.first_offset) for each in aborted),
            ttl_ms=partition.ttl_ms,
        )


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _out_of_range(partition: Partition, number: int, offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        offset=offset,
        topic=partition.name.rpartition("-")[0],
        partition=number,
        earliest=partition.log.start_offset,
        latest=partition.committed.high_watermark,
    )
