"""Recovery of the last segment after an unclean stop (docs/recovery.md has the rules and their reasons)."""

from pathlib import Path
from typing import NamedTuple

from quiver.log.segment.damage import Damage
from quiver.log.segment.frame_scan import ANYWHERE, FrameFile, Standing
from quiver.log.segment.index import INDEX_INTERVAL_BYTES, NO_MESSAGES, DamagedIndex
from quiver.log.segment.segment import Segment
from quiver.model.limits import MIB
from quiver.records.header import ALIGNMENT, FrameHeader
from quiver.system.files import Files

_WINDOW_BYTES = MIB
UNKNOWN_OFFSETS = 1 << 20  # skipped if cut bytes do not tell how many offsets they had


class Checkpoint(NamedTuple):
    """A frame boundary below which the segment needs no check."""

    position: int = 0
    standing: Standing = ANYWHERE
    max_timestamp_ms: int = -(2**63)
    frames_end: int | None = None
    """The offset after the last frame before it, if known; offsets up to `standing.next_offset` may have been
    lost."""


class Recovery(NamedTuple):
    """What a scan found. Bytes from `size` on are to be cut."""

    size: int
    standing: Standing
    max_timestamp_ms: int
    damage: list[Damage]
    safe_offset: int
    """No offset below this is given out again: cut frames may have had them."""


def scan_segment(segment: Segment, checkpoint: Checkpoint) -> Recovery:
    """Checks every frame from the checkpoint on, and writes the index again from there."""
    rebuild = False
    try:
        segment.index.cut(checkpoint.position)
    except DamagedIndex:
        rebuild = True
    with segment.frames(window_bytes=_WINDOW_BYTES) as frames:
        recovery = _Scan(segment, frames, checkpoint, note_entries=not rebuild).run()
    segment.size = recovery.size
    if segment.size > INDEX_INTERVAL_BYTES:  # a short one is read from its beginning
        segment.index.flush()
    if rebuild or recovery.damage:  # the scan does not count frames with a bad body, but everything else does
        segment.rebuild_index()
        segment.set_counts(segment.count_below(segment.size))
    return recovery


class _Scan:
    def __init__(self, segment: Segment, frames: FrameFile, checkpoint: Checkpoint, *, note_entries: bool) -> None:
        self._segment = segment
        self._frames = frames
        self._position, self._standing, self._max_timestamp_ms, _ = checkpoint
        self._note_entries = note_entries
        self._counts = list(segment.count_below(checkpoint.position) if note_entries else NO_MESSAGES)
        self._damage: list[Damage] = []

    def run(self) -> Recovery:
        safe_offset = 0
        while self._position < self._frames.end:
            header = self._good_frame(self._position)
            if header is not None:
                self._accept(header)
                continue
            behind = self._frames.next_good(self._search_start(), self._standing)
            if behind is None or self._frames.has_zero_page(self._position, behind[0]):
                safe_offset = self._offset_above_tail()
                break
            self._report(*behind)
        self._segment.set_counts(self._counts)
        return Recovery(self._position, self._standing, self._max_timestamp_ms, self._damage, safe_offset)

    def _good_frame(self, position: int) -> FrameHeader | None:
        header = self._frames.header_at(position)
        if header and self._standing.allows(header) and self._frames.has_good_body(position, header):
            return header
        return None

    def _accept(self, header: FrameHeader) -> None:
        self._max_timestamp_ms = max(self._max_timestamp_ms, header.max_timestamp_ms)
        if self._note_entries:
            index = self._segment.index
            if self._position >= index.due_position:
                index.add(
                    header.base_offset, self._position, header.append_time_ms, self._max_timestamp_ms, self._counts
                )
            if index.is_full:
                index.flush()
        self._counts[header.priority] += header.message_count
        self._standing = self._standing.after(header)
        self._position += header.frame_bytes

    def _search_start(self) -> int:
        """The position after the bad frame, if its header is good; its body may contain what looks like frames."""
        claim = self._frames.claim_at(self._position)
        return self._position + (claim.frame_bytes if claim and self._standing.allows(claim) else ALIGNMENT)

    def _report(self, position: int, header: FrameHeader) -> None:
        self._damage.append(
            Damage(
                where=str(self._segment.path),
                segment_base=self._segment.base_offset,
                position=self._position,
                end_position=position,
                first_offset=self._standing.next_offset,
                next_offset=header.base_offset,
                problem="a frame fails its checksum",
            )
        )
        self._position = position

    def _offset_above_tail(self) -> int:
        """An offset above all that the bytes to be cut may have had, according to good frames and headers among
        them."""
        standing, position = self._standing, self._search_start()
        while (behind := self._frames.next_good(position, standing)) is not None:
            standing, position = standing.after(behind[1]), behind[0] + behind[1].frame_bytes
        position = self._position if standing is self._standing else position
        claim = self._frames.claim_at(position)
        if claim is not None and standing.allows(claim):
            return claim.next_offset
        return standing.next_offset + (0 if is_zero(self._frames, position) else UNKNOWN_OFFSETS)


def is_zero(frames: FrameFile, position: int) -> bool:
    while position < frames.end:
        piece = frames.bytes_at(position, min(MIB, frames.end - position))
        if not piece or piece.tobytes().strip(b"\0"):
            return False
        position += len(piece)
    return True


def quarantine(segment: Segment, files: Files, position: int, end: int) -> Path | None:
    """Keeps a durable copy of the bytes that are about to be cut, unless they are all zero."""
    source = files.open_readonly(segment.path)
    try:
        if is_zero(FrameFile(files, source, end), position):
            return None
        directory = segment.path.parent / "quarantine"
        files.make_directory(directory)
        target = directory / f"{segment.base_offset:020d}-{position}-{end - position}.cut"
        _copy(files, source, target, position, end)
        files.sync_directory(directory)
        files.sync_directory(directory.parent)
        return target
    finally:
        files.close(source)


def _copy(files: Files, source: int, target: Path, position: int, end: int) -> None:
    fd = files.open(target, create=True)
    try:
        written = 0
        while position < end:
            piece = files.pread(source, min(MIB, end - position), position)
            if not piece:
                break
            written = files.write_all(fd, [piece], written)
            position += len(piece)
        files.fdatasync(fd)
    finally:
        files.close(fd)
