"""Reads ahead: feeds a group's state from the log until it has as many messages available as are wanted."""

import asyncio
import logging
from collections.abc import Sequence

from quiver.model.errors import CorruptData, InvalidFrame, OffsetOutOfRange
from quiver.partition.partition import Partition
from quiver.queues.partition.frame_cache import FrameCache, StoredFrame
from quiver.queues.partition.queue_group import QueueGroup
from quiver.queues.state.port import LEVELS, StoredRun
from quiver.structures.interval_set import IntervalSet

logger = logging.getLogger(__name__)

LOOK_AHEAD = 100_000
"""How many messages of an ordered group are read ahead in search of a level of which none is available, or of more
messages of the keys that a receiver takes."""
LOOK_AHEAD_FOR_KEY = 1_000_000
"""The same in search of a certain key; as many as a group reads ahead at the most."""


class ReadAhead:
    """Belongs to a partition. `removed` are the dead letters that nobody gets any more."""

    def __init__(self, partition: Partition, frames: FrameCache, removed: IntervalSet | None) -> None:
        self._partition = partition
        self._log = partition.log
        self._frames = frames
        self._removed = removed

    async def read_ahead(self, group: QueueGroup, count: int, levels: int, now_ms: int) -> list[int]:
        """Reads until `count` of each wanted level are available, or the log ends; returns how many are, by level."""
        if not group.is_in_order:
            await self._partition.committed.find_newest()
            self._pass_over_empty(group)
        available = group.state.available(now_ms)
        if self._wanted(group, available, count, levels) is None:
            return available
        async with group.reading:
            while (level := self._wanted(group, available, count, levels)) is not None:
                if not await self._read(group, level):
                    break
                available = group.state.available(now_ms)
                await asyncio.sleep(0)
        return group.state.available(now_ms)

    def _pass_over_empty(self, group: QueueGroup) -> None:
        """Empty levels move along with the others: the group's committed offset is the lowest of all levels."""
        newest = self._partition.committed.newest
        end = max(newest)
        for level in range(LEVELS):
            if newest[level] <= group.state.position(level) < end:
                group.state.feed(level, [], end)

    def _wanted(self, group: QueueGroup, available: Sequence[int], count: int, levels: int) -> int | None:
        """A level that has too few messages available and more to read; None if there is no such level."""
        newest, state, stable = self._partition.committed.newest, group.state, self._partition.committed.last_stable
        short = [
            level
            for level in range(LEVELS)
            if levels >> level & 1 and available[level] < count and state.position(level) < min(newest[level], stable)
        ]
        if not group.is_in_order:
            return short[0] if short else None
        if sum(available) < count and state.position(0) < stable:
            return 0
        # A lane may hold up messages that are more urgent than all that are available.
        is_missing = group.ordering == "key" and any(not available[level] for level in short)
        return 0 if is_missing and state.counts().read_ahead < LOOK_AHEAD else None

    async def _read(self, group: QueueGroup, level: int) -> bool:
        """Feeds the next frames; False when that makes no progress."""
        state = group.state
        # Taken before the search: what arrives during it was not looked at.
        at, end = state.position(level), self._partition.committed.last_stable
        try:
            frames = await self._next_frames(group, level, at)
        except OffsetOutOfRange:
            if at >= self._log.start_offset:
                return False
            frames = None
        except CorruptData as damage:
            after = max(at + 1, min(end, int(damage.details["next_offset"])))
            self._note_damage(group, at, after, damage)
            return self._feed(group, level, at, [], after)
        if at < self._log.start_offset:  # removed meanwhile: which messages were aborted there may be forgotten
            state.settle_below(self._log.start_offset)
            return True
        stable = [frame for frame in frames or () if frame.start < end]
        if not stable:
            return self._feed(group, level, at, [], max(at, end))
        return self._feed(group, level, at, self._stored_runs(group, level, at, stable), stable[-1].end)

    async def _next_frames(self, group: QueueGroup, level: int, at: int) -> Sequence[StoredFrame] | None:
        """Frames from `at` on, or from where the level continues; None when there are none."""
        if not group.is_in_order and self._frames.get(self._partition, at) is None:
            found = await self._log.find_priority(at, 1 << level)
            if found is None:
                return None
            at = max(at, found)
        return await self._frames.load(self._partition, at) or None

    def _stored_runs(self, group: QueueGroup, level: int, at: int, frames: Sequence[StoredFrame]) -> list[StoredRun]:
        runs: list[StoredRun] = []
        with_keys = group.ordering == "key"
        for frame in frames:
            if not self._partition.committed.is_visible(frame.header):
                continue
            if group.is_in_order or frame.header.priority == level:
                try:
                    runs += frame.stored_runs(at, with_keys=with_keys)
                except InvalidFrame as error:
                    self._note_damage(group, max(at, frame.start), frame.end, error)
        return runs if self._removed is None else _without(runs, self._removed)

    def _feed(self, group: QueueGroup, level: int, at: int, runs: list[StoredRun], position: int) -> bool:
        state = group.state
        if state.position(level) != at:
            return True  # the group was rewound meanwhile
        state.feed(level, runs, position)
        return state.position(level) != at

    def _note_damage(self, group: QueueGroup, start: int, end: int, error: Exception) -> None:
        if end not in group.known_damage:
            group.known_damage.add(end)
            group.counters.lost += end - start
            name = self._partition.name
            logger.warning("%s: offsets %d to %d are damaged and skipped: %s", name, start, end - 1, error)


def _without(runs: list[StoredRun], removed: IntervalSet) -> list[StoredRun]:
    left: list[StoredRun] = []
    for run in runs:
        for start, end in removed.gaps(run.start, run.end):
            keys = run.keys[start - run.start : end - run.start] if run.keys else ()
            left.append(StoredRun(start, end, run.level, keys))
    return left
