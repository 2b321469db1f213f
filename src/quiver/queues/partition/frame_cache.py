"""Stored frames that were read and are soon needed: read ahead for one group, delivered to it and to others."""

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence

from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import KIB, MIB
from quiver.partition.partition import Partition
from quiver.queues.partition.stored_frame import StoredFrame
from quiver.records.header import FrameHeader
from quiver.records.read import split_frames

READ_BYTES = 256 * KIB
_OVERHEAD_BYTES = 512
_ROW_BYTES = 8
"""What frames and their messages cost beside their bytes, once they are opened."""


class FrameCache:
    """Frames by partition and base offset, the least recently used out first. One for the whole broker.

    After a compaction those of before are not given out: what was aborted in them may be forgotten soon.
    """

    def __init__(self, limit_bytes: int = 64 * MIB) -> None:
        self._limit_bytes = limit_bytes
        self._frames: OrderedDict[tuple[Partition, int], StoredFrame] = OrderedDict()
        self._starts: dict[Partition, list[int]] = {}
        self._compacted: dict[Partition, int] = {}
        """How far a partition was compacted when its frames were read."""
        self.size_bytes = 0

    def get(self, partition: Partition, offset: int) -> StoredFrame | None:
        """The frame that holds an offset, if it is here."""
        starts = self._starts.get(partition)
        if not starts:
            return None
        if self._compacted[partition] != partition.committed.aborted_gone_below:
            self.forget(partition)
            return None
        place = bisect_right(starts, offset)
        if not place:
            return None
        key = (partition, starts[place - 1])
        frame = self._frames[key]
        if frame.end <= offset:
            return None
        self._frames.move_to_end(key)
        return frame

    async def load(self, partition: Partition, offset: int) -> Sequence[StoredFrame]:
        """Frames that follow each other, from the one that holds an offset or the first behind it; none: at the end.

        Raises what `Log.read` raises: OffsetOutOfRange, and CorruptData, which says where the log goes on.
        """
        if frames := self._following(partition, offset):
            return frames
        compacted = partition.committed.aborted_gone_below
        piece = await partition.log.read(offset, max_bytes=READ_BYTES)
        if piece is None:
            return ()
        try:
            data = await piece.read()
        finally:
            piece.release()
        if (
            not self._compacted.setdefault(partition, compacted)
            == compacted
            == partition.committed.aborted_gone_below
        ):
            self.forget(partition)
            self._compacted[partition] = compacted
        return self._add(partition, offset, data)

    def forget(self, partition: Partition) -> None:
        self._compacted.pop(partition, None)
        for start in self._starts.pop(partition, ()):
            self.size_bytes -= _cost(self._frames.pop((partition, start)))

    def _following(self, partition: Partition, offset: int) -> list[StoredFrame]:
        found: list[StoredFrame] = []
        size = 0
        while size < READ_BYTES and (frame := self.get(partition, offset)) is not None:
            found.append(frame)
            size += len(frame.data)
            offset = frame.end
        return found

    def _add(self, partition: Partition, offset: int, data: bytes | memoryview) -> list[StoredFrame]:
        found: list[StoredFrame] = []
        try:
            for position, header in split_frames(data):
                found.append(self._keep(partition, header, data, position))
        except InvalidFrame as error:
            # A bad frame behind good ones is the first of the next read, which says where the log goes on behind it.
            if not found:
                raise CorruptData(where=partition.name, problem=error.message, next_offset=offset + 1) from error
        while self.size_bytes > self._limit_bytes and len(self._frames) > len(found):
            self._drop_oldest()
        return found

    def _keep(
        self, partition: Partition, header: FrameHeader, data: bytes | memoryview, position: int
    ) -> StoredFrame:
        """A frame that is little of what was read is copied, so that it does not keep all of it."""
        key = (partition, header.base_offset)
        known = self._frames.get(key)
        if known is not None:
            self._frames.move_to_end(key)
            return known
        view = memoryview(data)[position : position + header.frame_bytes]
        frame = StoredFrame(header, view if 2 * len(view) >= len(data) else bytes(view))
        self._frames[key] = frame
        insort(self._starts.setdefault(partition, []), header.base_offset)
        self.size_bytes += _cost(frame)
        return frame

    def _drop_oldest(self) -> None:
        (partition, start), frame = self._frames.popitem(last=False)
        starts = self._starts[partition]
        del starts[bisect_right(starts, start) - 1]
        if not starts:
            del self._starts[partition], self._compacted[partition]
        self.size_bytes -= _cost(frame)


def _cost(frame: StoredFrame) -> int:
    header = frame.header
    opened = header.uncompressed_length if header.compression else 0
    return len(frame.data) + opened + _ROW_BYTES * header.record_count + _OVERHEAD_BYTES
