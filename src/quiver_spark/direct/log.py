"""One log of a data directory, read beside the broker that may be writing it."""

from pathlib import Path

import msgspec

from quiver.log.files.open_files import OpenFiles
from quiver.log.recovery.reserved_file import LogState, ReservedFile
from quiver.log.segment.frame_scan import FrameFile, Standing
from quiver.log.segment.index import DamagedIndex
from quiver.log.segment.segment import Segment
from quiver.log.segment_view import SegmentView, Tail
from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import CorruptData
from quiver.model.limits import MIB
from quiver.partition.transactions import TransactionsSnapshot, TransactionTable, read_marker
from quiver.records.header import ALIGNMENT, HEADER_BYTES, FrameHeader
from quiver_spark.direct.read_only_files import ReadOnlyFiles, list_segments
from quiver_spark.source.unreadable import check_version

_WINDOW_BYTES = MIB
_READ_BYTES = 4 * MIB
FAR = 2**62
_NO_STATE = LogState()


class _PartitionSnapshot(msgspec.Struct, array_like=True):
    """What a snapshot of a partition holds, as far as readers need it."""

    producers: msgspec.Raw
    transactions: TransactionsSnapshot


class DirectLog(SegmentView):
    """`look` finds what there is now. A reader that knows where to stop only needs `look_at_segments`."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(name, OpenFiles(ReadOnlyFiles()))
        self.directory = directory

    def look_at_segments(self) -> None:
        """Takes every byte of the files for part of the log."""
        self.forget_files()
        self.segments = list_segments(self.directory, self.open_files)
        last = self.segments[-1] if self.segments else None
        self.damage = []
        self.forget_positions()
        self.tail = Tail(FAR, last, last.size if last else 0)

    def look(self) -> None:
        """Finds the end of the log: behind the last frame that is there as a whole."""
        self.look_at_segments()
        state = ReservedFile(self.directory / "reserved", self.open_files.files, self.directory).load() or _NO_STATE
        snapshot = self._snapshots().newest()
        if not self.segments:
            end = max(
                state.end_offset, state.reserved_offset if state.is_clean else 0, snapshot[0] if snapshot else 0
            )
            self.tail = Tail(end, None, 0)
            return
        last = self.segments[-1]
        position, standing = self._checkpoint(last, state, snapshot[0] if snapshot else 0)
        with last.frames(window_bytes=_WINDOW_BYTES) as frames:
            position, standing = self._walk(frames, position, standing)
        last.size = position
        if standing.append_time_ms == 0:
            standing = standing._replace(append_time_ms=self._last_time())
        self.tail = Tail(standing.next_offset, last, position, standing.append_time_ms)

    def _snapshots(self) -> SnapshotFiles:
        files = self.open_files.files
        return SnapshotFiles(self.directory, files, files.names(self.directory))

    def _checkpoint(self, last: Segment, state: LogState, snapshot_offset: int) -> tuple[int, Standing]:
        """A place up to which the last segment is known to be good, as its broker noted it."""
        position, standing = 0, Standing(last.base_offset)
        if state.segment_base == last.base_offset and state.segment_size <= last.size:
            position = state.segment_size
            standing = Standing(max(state.end_offset, last.base_offset), state.last_epoch, state.last_append_time_ms)
        try:
            entry = last.index.last_where(lambda entry: entry.offset < snapshot_offset)
        except DamagedIndex:
            return position, standing
        if entry is not None and entry.position > position:
            with last.frames() as frames:
                header = frames.header_at(entry.position)
            if header is not None and header.base_offset == entry.offset:
                return entry.position, Standing(entry.offset)
        return position, standing

    def _walk(self, frames: FrameFile, position: int, standing: Standing) -> tuple[int, Standing]:
        """Behind the last good frame: as recovery does, damage with good frames behind it is not the end."""
        while position < frames.end:
            header = frames.header_at(position)
            if header is None or not standing.allows(header) or not frames.has_good_body(position, header):
                self.check_version(frames, position)
                behind = frames.next_good(position + (header.frame_bytes if header else ALIGNMENT), standing)
                if behind is None or frames.has_zero_page(position, behind[0]):
                    break
                position, header = behind
            standing = standing.after(header)
            position += header.frame_bytes
        return position, standing

    def check_version(self, frames: FrameFile, position: int) -> None:
        """UnsupportedVersion when what cannot be read at a place is a frame of a later version."""
        if position + HEADER_BYTES <= frames.end:
            check_version(self.log_id, frames.bytes_at(position, 3))

    def _last_time(self) -> int:
        for segment in reversed(self.segments):
            if segment.size:
                return segment.times()[1]
        return 0

    def transactions(self) -> TransactionTable:
        """Which transactions are open and which were aborted, up to the end that `look` found."""
        table, offset = TransactionTable(), self.start_offset
        snapshot = self._snapshots().newest(self.tail.end_offset)
        if snapshot is not None:
            offset = max(offset, snapshot[0])
            table.restore(msgspec.msgpack.decode(snapshot[1], type=_PartitionSnapshot).transactions)
        while offset < self.tail.end_offset:
            try:
                offset = self._record(table, offset)
            except CorruptData as damage:
                offset = max(offset + 1, int(damage.details["next_offset"]))
        return table

    def _record(self, table: TransactionTable, offset: int) -> int:
        """Records the frames of one extent; returns where to go on."""
        extent = self.read(offset, max_bytes=_READ_BYTES)
        if extent is None:
            return self.tail.end_offset
        try:
            frames = FrameFile(self.open_files.files, extent.fd, extent.position + extent.length)
            for position, header in frames.walk(extent.position):
                if header is None:
                    break
                if header.next_offset > offset:
                    table.record(header, read_marker(_frame(frames, position, header)) if header.is_control else None)
                    offset = header.next_offset
        finally:
            self.open_files.unpin(extent.file)
        return offset

    def forget_files(self) -> None:
        for segment in self.segments:
            segment.forget()


def _frame(frames: FrameFile, position: int, header: FrameHeader) -> memoryview:
    return frames.bytes_at(position, header.frame_bytes)
