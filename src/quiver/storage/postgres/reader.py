"""Reads of a log in the database."""

from quiver.log.segment.index import NO_MESSAGES, PRIORITIES
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.postgres.appending.state import PostgresLogState
from quiver.storage.postgres.appending.tail_cache import CachedTail
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.standby import Rows, StandbyReads

_MOST_ROWS = 4096
_LEAST_FRAME_BYTES = 256


class PostgresReader:
    """Offsets were checked by the log. Each method is one statement, and so sees the log at one moment."""

    def __init__(
        self, database: Database, state: PostgresLogState, tail: CachedTail, standby: StandbyReads | None = None
    ) -> None:
        self._database = database
        self._state = state
        self._tail = tail
        self._standby = standby

    async def read(self, offset: int, *, max_bytes: int, end_offset: int) -> MemorySlice | None:
        cached = self._tail.read(offset, max_bytes=max_bytes, end_offset=end_offset)
        if cached is not None:
            return MemorySlice(*cached)
        if offset >= self._state.frames_end:
            return None
        most = max(1, min(_MOST_ROWS, max_bytes // _LEAST_FRAME_BYTES))
        wanted = (self._state.id, offset, end_offset, max_bytes, most)
        rows: Rows = []
        if self._standby is not None and offset < self._state.segments[-1].base_offset:
            rows = await self._standby.read(*wanted)
        if not rows:
            rows = await self._database.fetch("read", *wanted)
        if not rows:
            return None
        return MemorySlice([row[0] for row in rows], rows[-1][1])

    async def offset_for_time(self, time_ms: int) -> int | None:
        """None when every frame is older."""
        state = self._state
        for segment, bound in zip(state.segments, state.bounds, strict=True):
            if segment.size_bytes and segment.last_time_ms >= time_ms:
                row = await self._database.fetch_row("find_time", state.id, segment.base_offset, bound, time_ms)
                if row is not None:
                    return int(row[0])
        return None

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        state = self._state
        offset = max(offset, state.start_offset)
        wanted = [priority for priority in range(PRIORITIES) if priorities >> priority & 1]
        if not wanted or offset >= state.frames_end:
            return None
        row = await self._database.fetch_row(
            "find_priority", state.id, offset, wanted, state.frames_end, state.start_offset
        )
        return None if row is None or row[0] is None else int(row[0])

    async def count_by_priority(self, offset: int) -> list[int]:
        state = self._state
        counts = list(NO_MESSAGES)
        offset = max(offset, state.start_offset)
        index = state.segment_index(offset)
        segments, bounds = state.segments, state.bounds
        for segment in segments[index + 1 :]:
            counts = [count + more for count, more in zip(counts, segment.counts, strict=True)]
        if offset <= segments[index].base_offset:
            return [count + more for count, more in zip(counts, segments[index].counts, strict=True)]
        rows = await self._database.fetch("frame_extents", state.id, segments[index].base_offset, bounds[index])
        for base, end, message_count, priority, _, _ in rows:
            if end > offset:
                counts[priority] += message_count if base >= offset else min(message_count, end - offset)
        return counts

    async def holes(self, base_offset: int, end_offset: int, message_count: int) -> list[tuple[int, int]]:
        """Offsets of a segment that have no message."""
        if end_offset - base_offset == message_count:
            return []
        found, start = [], base_offset
        for base, end, count, *_ in await self._database.fetch(
            "frame_extents", self._state.id, base_offset, end_offset
        ):
            found += [(start, base), (base + count, end)]
            start = end
        found.append((start, end_offset))
        return [(low, high) for low, high in found if low < high]
