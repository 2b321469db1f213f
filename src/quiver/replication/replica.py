"""A replica of a log that follows a leader."""

import asyncio

from quiver.records.header import HEADER_BYTES, StampedFrame, read_stamped_header
from quiver.replication.epoch_ends import MAX_EPOCH, last_epoch
from quiver.replication.follower import EpochEnd, Follower, cut
from quiver.replication.messages import Align, Append, Position
from quiver.storage.port import Log


class Replica:
    """Changes of its log take turns."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.follower = Follower()
        self.turn = asyncio.Lock()

    async def align(self, message: Align) -> Position:
        async with self.turn:
            if not self.follower.promise(message.epoch) or self.follower.is_aligned:
                return self._position()
            own = await last_epoch(self.log, MAX_EPOCH)
            if message.common is not None:
                theirs = EpochEnd(*message.common)
                found = cut(own, await last_epoch(self.log, theirs.epoch), theirs)
                if found.offset < self.log.end_offset:
                    await self.log.truncate(found.offset)
                if found.is_aligned:
                    self.follower.align(message.epoch)
                own = await last_epoch(self.log, MAX_EPOCH)
            return self._position(own.epoch)

    async def append(self, message: Append) -> Position:
        async with self.turn:
            verdict = self.follower.verdict(message.epoch, message.base, self.log.end_offset)
            if verdict == "take":
                frames = _frames_after(message.frames, self.log.end_offset)
                if frames:
                    await self.log.append(frames)
                self.follower.commit(message.watermark, self.log.end_offset)
            return self._position()

    def _position(self, epoch: int = -1) -> Position:
        return Position(self.follower.epoch, self.log.end_offset, self.follower.is_aligned, epoch)


def _frames_after(data: bytes, offset: int) -> list[StampedFrame]:
    """The frames that begin at an offset or above, as they are."""
    frames, position, view = [], 0, memoryview(data)
    while position + HEADER_BYTES <= len(view):
        header = read_stamped_header(view, position)
        end = position + header.frame_bytes
        if end > len(view):
            break
        if header.base_offset >= offset:
            frames.append(
                StampedFrame(header, view[position : position + HEADER_BYTES], view[position + HEADER_BYTES : end])
            )
        position = end
    return frames
