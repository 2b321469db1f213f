"""Reads of a log on local files: on the loop where nothing has to be searched, in a thread otherwise."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from quiver.log.files.write_error import is_lack_of_room
from quiver.log.segment.index import NO_MESSAGES
from quiver.log.segment_view import Extent, out_of_range, segment_index
from quiver.model.errors import CorruptData, Overloaded, QuiverError
from quiver.storage.local.file_slice import FileSlice
from quiver.storage.local.tiers import LogTiers
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.port import FrameSlice
from quiver.system.threads import Threads

T = TypeVar("T")


class LocalReader:
    """The reading half of the `Log` port. Reads run while the log is written."""

    def __init__(self, tiers: LogTiers, threads: Threads) -> None:
        self._tiers = tiers
        self._disk = tiers.disk
        self._view = tiers.disk.view
        self._priorities = tiers.disk.priorities
        self._threads = threads

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        tiers, view = self._tiers, self._view
        tiers.check_open()
        start, end = tiers.start_offset, tiers.end_offset
        if not start <= offset <= end:
            raise out_of_range(view.log_id, offset, start, end)
        limit = end if end_offset is None else min(end, end_offset)
        memory = tiers.memory
        if offset >= limit:
            return None
        if memory is None or offset < view.tail.end_offset:
            extent = view.read_hot(offset, max_bytes=max_bytes, end_offset=limit)
            if extent is None:
                extent = await self._read_in_thread(offset, max_bytes, limit)
            if extent is not None:
                return FileSlice(extent, view.open_files, self._threads)
        if memory is None:
            return None
        frames = memory.frames.read(max(offset, memory.frames.start_offset), max_bytes=max_bytes, end_offset=limit)
        return None if frames is None else MemorySlice(*frames)

    async def _read_in_thread(self, offset: int, max_bytes: int, end_offset: int) -> Extent | None:
        read: list[Extent | None] = []
        view, tiers = self._view, self._tiers
        segments = view.segments
        try:
            await self._threads.run(
                lambda: read.append(view.read(offset, max_bytes=max_bytes, end_offset=end_offset))
            )
        except asyncio.CancelledError:
            for extent in read:
                if extent is not None:
                    view.open_files.unpin(extent.file)
            raise
        except OSError as error:
            tiers.check_open()
            if offset < tiers.start_offset:  # dropped by retention between the look and the read
                raise out_of_range(view.log_id, offset, tiers.start_offset, tiers.end_offset) from error
            if view.segments is not segments:  # replaced by compaction between the look and the read
                return await self._read_in_thread(offset, max_bytes, end_offset)
            raise self._unreadable(error, offset) from error
        return read[0]

    async def offset_for_time(self, time_ms: int) -> int:
        view, memory = self._view, self._tiers.memory
        last_ms = view.tail.last_append_time_ms if memory is None else memory.frames.last_append_time_ms
        if time_ms > last_ms:
            return self._tiers.end_offset
        found = await self._search(lambda: view.offset_for_time(time_ms))
        memory = self._tiers.memory
        if memory is not None and found >= view.tail.end_offset:
            return memory.frames.offset_for_time(time_ms)
        return found

    async def end_offset_of_epoch(self, epoch: int) -> int:
        memory = self._tiers.memory
        epochs = await self._search(self._disk.epochs) if memory is None else memory.frames.epochs
        frames_end = self._view.tail.frames_end if memory is None else memory.frames.frames_end
        return epochs.end_offset_of(epoch, start_offset=self._tiers.start_offset, end_offset=frames_end)

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        self._tiers.check_open()
        memory, search = self._tiers.memory, self._priorities
        if offset < self._view.tail.end_offset:
            if search.has_priority_hot(offset, priorities):
                return offset
            if not search.knows_of_none(offset, priorities):
                found = await self._search(lambda: search.find_priority(offset, priorities), offset)
                if found is not None:
                    return found
        return None if memory is None else memory.frames.find_priority(offset, priorities)

    async def count_by_priority(self, offset: int) -> list[int]:
        self._tiers.check_open()
        memory, view, search = self._tiers.memory, self._view, self._priorities
        counts = list(NO_MESSAGES)
        if offset < view.tail.end_offset:
            known = search.known_counts() if offset <= view.start_offset else None
            counts = await self._search(lambda: search.count_by_priority(offset)) if known is None else known
        if memory is None:
            return counts
        return [count + more for count, more in zip(counts, memory.frames.count_by_priority(offset), strict=True)]

    async def _search(self, search: Callable[[], T], offset: int = 0) -> T:
        """A search in a thread, from an offset on; again when retention removed a segment under it, or compaction
        replaced one."""
        while True:
            segments = self._view.segments
            try:
                return await self._threads.run(search)
            except OSError as error:
                self._tiers.check_open()
                if self._view.segments is segments:
                    raise self._unreadable(error, offset) from error

    def _unreadable(self, error: OSError, offset: int) -> QuiverError:
        """What readers are told: that they may try again, or that the rest of the segment is lost.

        Whoever is told of damage goes on after it, so a failure that passes must not look like damage.
        """
        view = self._view
        if is_lack_of_room(error):
            return Overloaded(problem=f"{(error.strerror or str(error)).lower()} for {view.log_id}")
        following = view.segments[segment_index(view.segments, offset) + 1 :]
        next_offset = following[0].base_offset if following else view.tail.end_offset
        return CorruptData(where=view.log_id, problem=str(error), next_offset=next_offset)
