"""A log that follows its leader's: cut where it leaves it, then continued with the same frames."""

import asyncio
from collections.abc import Awaitable, Callable

import google_crc32c

from quiver.model.errors import InvalidFrame
from quiver.records.header import HEADER_BYTES, StampedFrame, body_crc, read_stamped_header
from quiver.replication.epoch_ends import last_epoch, last_epoch_up_to
from quiver.replication.follower import EpochEnd, Follower, cut
from quiver.replication.leading.led_log import local_options
from quiver.replication.messages import LogPart, LogPosition, LogStart, SnapshotChunk
from quiver.storage.port import Log


class Replica:
    """Changes of its log take turns."""

    def __init__(
        self, log_id: str, log: Log, follower: Follower, recreate: Callable[[LogStart], Awaitable[Log]]
    ) -> None:
        """`recreate` removes the log and opens an empty one."""
        self.log_id, self.log = log_id, log
        self._follower, self._recreate = follower, recreate
        self.turn = asyncio.Lock()
        self.snapshot_offset = -1
        """Of the newest one."""
        self._is_prepared = False
        self._complete_from = 0
        """What its leader had compacted or dropped in this epoch when it began; it lacks nothing of that."""
        self.watermark = 0
        """What is committed, as far as this replica has it and was told."""
        self._synced_to = 0
        self._copied = bytearray()
        self._copied_offset = -1

    async def _prepare(self) -> None:
        """Its first leader is about to ask. What it has is its frames: offsets that it has reserved beyond them are
        not what the leader means."""
        frames_end = self.log.last_frame.end_offset
        if frames_end < self.log.end_offset:
            await self.log.truncate(max(frames_end, self.log.start_offset))
        await self._find_snapshot()
        self._is_prepared = True

    async def _find_snapshot(self) -> None:
        snapshot = await self.log.load_snapshot()
        self.snapshot_offset = -1 if snapshot is None else snapshot.offset

    async def align(self, epoch: int, start: LogStart) -> LogPosition:
        async with self.turn:
            if self._follower.epoch != epoch:
                return LogPosition(start.number, 0, 0, False)
            self.log.configure(local_options(start.options))
            if not self._is_prepared:
                await self._prepare()
            own = last_epoch(self.log)
            if start.number not in self._follower.aligned:
                if await self._cut(start, own):
                    self._follower.align(epoch, start.number)
                    self._complete_from = start.complete_from
            elif start.complete_from > self._complete_from:
                if self.log.end_offset < start.complete_from:
                    await self._cut_to(self.log.start_offset)
                self._complete_from = start.complete_from
            return self._position(start.number, own.epoch)

    async def _cut(self, start: LogStart, own: EpochEnd) -> bool:
        if start.common is not None:
            theirs = EpochEnd(*start.common)
            found = cut(own, await last_epoch_up_to(self.log, theirs.epoch), theirs)
            offset, is_aligned = found.offset, found.is_aligned
        elif own.epoch == start.last_epoch:
            offset, is_aligned = min(own.end_offset, start.end_offset), True
        else:
            return False
        if is_aligned and offset < start.complete_from:
            offset = self.log.start_offset  # what follows is not what followed then
        await self._cut_to(max(offset, self.log.start_offset))
        if is_aligned and self._seems_to_have_more(start):
            self.log = await self._recreate(start)
            await self._note_end()
        return is_aligned

    async def _cut_to(self, offset: int) -> None:
        log = self.log
        if offset < log.end_offset:
            await log.truncate(offset)
        if log.start_offset == log.end_offset:
            await log.truncate(offset)  # it forgets a time that the leader may not know, and be before it
        await self._note_end()

    async def _note_end(self) -> None:
        """It may be lower than before."""
        end = self.log.end_offset
        self._synced_to, self.watermark = min(self._synced_to, end), min(self.watermark, end)
        if self.snapshot_offset > end:
            await self._find_snapshot()

    def _seems_to_have_more(self, start: LogStart) -> bool:
        """It has no frames, and its end is above some of the leader's: by offsets that were only reserved, or by
        frames of others. It would never get the leader's frames below that. Where it had frames up to its end and
        removed them, its leader did that too, or is going to."""
        log = self.log
        if log.start_offset < log.end_offset or log.end_offset <= start.start_offset:
            return False
        return log.last_frame.end_offset < log.end_offset or log.end_offset > start.end_offset

    async def append(self, epoch: int, part: LogPart, data: memoryview) -> LogPosition:
        async with self.turn:
            verdict = self._follower.verdict(epoch, part.number, part.base, self.log.end_offset)
            if verdict == "take":
                await self._drop_front(part)
                frames = frames_after(data, self.log.end_offset)
                if frames:
                    await self.log.append(frames, sync=part.is_synced)
                if self.log.end_offset < part.end:
                    await self.log.skip_to(part.end)
                await self._sync(part)
                self.watermark = max(self.watermark, min(part.watermark, self.log.end_offset))
            return self._position(part.number)

    async def _sync(self, part: LogPart) -> None:
        end = self.log.end_offset
        if part.is_synced and self._synced_to < end:
            await self.log.sync()
            self._synced_to = end

    async def _drop_front(self, part: LogPart) -> None:
        start = min(part.start_offset, self.log.end_offset)
        if start <= self.log.start_offset or part.snapshot_offset > self.snapshot_offset:
            return
        if start == self.log.end_offset:
            await self.log.roll()
        await self.log.drop_front(start)

    async def take_chunk(self, epoch: int, chunk: SnapshotChunk, data: memoryview) -> LogPosition:
        """Keeps what it has until all of it is there."""
        async with self.turn:
            if self._follower.epoch != epoch or chunk.number not in self._follower.aligned:
                return LogPosition(chunk.number, 0, 0, False)
            if self.snapshot_offset >= chunk.offset:
                return self._chunk_position(chunk.number)
            if chunk.position == 0 or self._copied_offset != chunk.offset:
                self._copied, self._copied_offset = bytearray(), chunk.offset
            if chunk.position == len(self._copied):
                self._copied += data
            if len(self._copied) >= chunk.size_bytes:
                await self._save(chunk)
            return self._chunk_position(chunk.number)

    async def _save(self, chunk: SnapshotChunk) -> None:
        whole = bytes(self._copied)
        self._copied = bytearray()
        is_whole = len(whole) == chunk.size_bytes and int(google_crc32c.value(whole)) == chunk.crc
        if is_whole and chunk.offset <= self.log.end_offset:
            await self.log.save_snapshot(chunk.offset, whole, sync=True)
            self.snapshot_offset = chunk.offset

    def _chunk_position(self, number: int) -> LogPosition:
        return LogPosition(number, len(self._copied), 0, True, snapshot_offset=self.snapshot_offset)

    def _position(self, number: int, epoch: int = -1) -> LogPosition:
        return LogPosition(
            number,
            self.log.end_offset,
            self._synced_to,
            number in self._follower.aligned,
            epoch,
            self.snapshot_offset,
        )


def frames_after(data: memoryview, offset: int) -> list[StampedFrame]:
    """The frames that begin at an offset or above, as they are. Raises InvalidFrame if one was damaged on its way."""
    frames, position = [], 0
    while position + HEADER_BYTES <= len(data):
        header = read_stamped_header(data, position)
        end = position + header.frame_bytes
        if end > len(data):
            raise InvalidFrame(problem="it is cut off")
        if header.base_offset >= offset:
            head, body = data[position : position + HEADER_BYTES], data[position + HEADER_BYTES : end]
            if body_crc(head, body) != header.body_crc:
                raise InvalidFrame(problem="the body checksum does not match")
            frames.append(StampedFrame(header, head, body))
        position = end
    return frames
