"""Builds the response of a receive: the frames of the messages that were taken, cut to just these."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from quiver.model.errors import CorruptData, FrameTooLarge, InvalidFrame, OffsetOutOfRange
from quiver.partition.partition import Partition
from quiver.queues.partition.frame_cache import FrameCache, StoredFrame
from quiver.queues.state.port import Run, Taken
from quiver.structures.interval_set import IntervalSet
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

_TURN_SECONDS = 0.005


class ResponseRun(NamedTuple):
    taken: Taken
    start: int
    end: int
    append_time_ms: int
    frame: bytes | memoryview


class BuiltResponse:
    """Filled in the order of what was taken. Once something does not fit, nothing after it is packed."""

    def __init__(self, max_bytes: int, ttl_ms: int | None, now_ms: int) -> None:
        self.ttl_ms, self.now_ms = ttl_ms, now_ms
        self.runs: list[ResponseRun] = []
        self.expired: list[Run] = []
        self.lost: list[Run] = []
        """Removed by retention, or damaged."""
        self.removed: list[Run] = []
        """Removed on purpose, or by compaction because a later message has their key."""
        self.unfit: list[Run] = []
        self._room_bytes = max_bytes

    def add(self, taken: Taken, frame: StoredFrame, start: int, end: int) -> None:
        stop = start if self.unfit else frame.fitting(start, end, self._room_bytes)
        if stop == start and not self.runs and not self.unfit:
            stop = start + 1
        if start < stop:
            data = frame.cut(start, stop)
            self._room_bytes -= len(data)
            self.runs.append(ResponseRun(taken, start, stop, frame.header.append_time_ms, data))
        if stop < end:
            self.unfit.append((stop, end))


class ResponseBuilder:
    """Belongs to a partition. `removed` are the dead letters that nobody gets any more."""

    def __init__(self, partition: Partition, frames: FrameCache, removed: IntervalSet | None, clock: Clock) -> None:
        self._partition = partition
        self._frames = frames
        self._removed = removed
        self._clock = clock

    async def build(self, taken: Sequence[Taken], *, ttl_ms: int | None, max_bytes: int) -> BuiltResponse:
        response = BuiltResponse(max_bytes, ttl_ms, self._clock.now_ms())
        turn_ends_at = self._clock.monotonic() + _TURN_SECONDS
        for run in taken:
            at = run.start
            while at < run.end:
                if response.unfit:
                    response.unfit.append((at, run.end))
                    break
                at = await self._add_frame(response, run, at)
                if self._clock.monotonic() >= turn_ends_at:
                    await asyncio.sleep(0)
                    turn_ends_at = self._clock.monotonic() + _TURN_SECONDS
        return response

    async def _add_frame(self, response: BuiltResponse, run: Taken, at: int) -> int:
        """Packs what one frame has of a run from `at` on; returns where the run continues."""
        start, frame, is_lost = await self._find(at, run.end)
        if frame is None or start > at:
            (response.lost if is_lost else response.removed).append((at, start))
            return start
        end = min(run.end, frame.end)
        try:
            frame.check()
            self._divide(response, run, frame, start, end)
        except (FrameTooLarge, InvalidFrame) as error:
            logger.warning("%s: offsets %d to %d cannot be delivered: %s", self._partition.name, at, end - 1, error)
            response.lost.append((at, end))
        return end

    async def _find(self, at: int, end: int) -> tuple[int, StoredFrame | None, bool]:
        """Where the next stored message is, and its frame; `end` when there is none before it.

        And whether what is missing before it is lost: in a compacted topic, holes are normal.
        """
        log = self._partition.log
        if at < log.start_offset:
            return min(end, log.start_offset), None, True
        frame = self._frames.get(self._partition, at)
        if frame is None:
            try:
                frames = await self._frames.load(self._partition, at)
            except OffsetOutOfRange:
                return min(end, max(at + 1, log.start_offset)), None, True
            except CorruptData as damage:
                logger.warning("%s: offset %d cannot be delivered: %s", self._partition.name, at, damage)
                return min(end, max(at + 1, int(damage.details["next_offset"]))), None, True
            frame = frames[0] if frames else None
        is_lost = not self._partition.committed.is_compacted
        if frame is None or frame.start >= end:
            return end, None, is_lost
        return max(at, frame.start), frame, is_lost

    def _divide(self, response: BuiltResponse, run: Taken, frame: StoredFrame, start: int, end: int) -> None:
        """Sorts the messages into those to be delivered, expired ones and those that are gone."""
        stored = frame.stored(start, end)
        if stored != [(start, end)]:
            response.removed += IntervalSet(stored).gaps(start, end)
        for first, last in stored:
            self._divide_stored(response, run, frame, first, last)

    def _divide_stored(self, response: BuiltResponse, run: Taken, frame: StoredFrame, start: int, end: int) -> None:
        expired = frame.expired(start, end, response.now_ms, response.ttl_ms)
        removed = [] if self._removed is None else list(self._removed.within(start, end))
        if not expired and not removed:
            response.add(run, frame, start, end)
            return
        gone = IntervalSet(removed)
        response.removed += removed
        response.expired += [gap for each in expired for gap in gone.gaps(*each)]
        for first, last in expired:
            gone.add(first, last)
        for first, last in gone.gaps(start, end):
            response.add(run, frame, first, last)
