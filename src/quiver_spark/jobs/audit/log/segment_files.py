"""The segment files of a partition: which ones count, what its broker noted about them, and the check of one."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from quiver.log.compaction.progress import ProgressFile
from quiver.log.compaction.replacement import NOTE
from quiver.log.recovery.reserved_file import ReservedFile
from quiver.log.segment.frame_scan import FrameFile
from quiver.log.segment.segment import segment_path
from quiver.model.errors import InvalidFrame
from quiver.model.limits import MIB
from quiver.records.header import (
    ALIGNMENT,
    HEADER_BYTES,
    VERSION,
    FrameHeader,
    read_stamped_header,
    unpack_header,
)
from quiver_spark.direct.read_only_files import ReadOnlyFiles
from quiver_spark.jobs.audit.finding import Finding
from quiver_spark.jobs.audit.log.stretch import GapRules, StretchChecks, StretchReport, Where
from quiver_spark.source.unreadable import check_version

_WINDOW_BYTES = 4 * MIB
_NOTE_CRC_BYTES = 4
_VERSION_AT = 2
_SUFFIX = ".log"
_FILES = ReadOnlyFiles()


class SegmentFile(NamedTuple):
    """One file as it was when the audit was planned. Goes to the workers as it is."""

    topic: str
    partition: int
    directory: str
    base_offset: int
    size_bytes: int
    inode: int
    stop: int
    """Where the next segment begins, or the log ends."""
    is_last: bool
    certain_bytes: int
    """Of the last one: bad bytes from here on, with nothing good behind them, are a write under way or cut short."""
    start: int
    end: int
    """The offsets that the audit is about; of the last file nothing is from `stop` on, which was written since."""
    compacted_below: int
    is_compacted: bool


def current_bases(directory: Path) -> list[int]:
    """The base offsets of the segments that count, in order.

    While compaction puts a segment in the place of several, and after a crash in the middle of that, those that it
    replaces may still be there.
    """
    names = _FILES.names(directory)
    bases = sorted(int(name.removesuffix(_SUFFIX)) for name in names if _is_segment(name))
    if NOTE not in names:
        return bases
    try:
        replaced, size, _ = msgspec.msgpack.decode(_FILES.read_file(directory / NOTE)[_NOTE_CRC_BYTES:])
        is_in_place = _FILES.path_size(segment_path(directory, replaced[0])) == size
    except (OSError, ValueError, msgspec.DecodeError):
        return bases
    return [base for base in bases if not is_in_place or base not in replaced[1:]]


def _is_segment(name: str) -> bool:
    return name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdecimal()


def clean_to(directory: Path) -> int:
    """Below this, compaction has been, whatever the topic is set to now."""
    return ProgressFile(directory / "compacted", _FILES).load().clean_to


def last_base(directory: Path) -> int:
    """The last segment is never compacted: below it anything may go."""
    return max(current_bases(directory), default=0)


def lost_frames(topic: str, partition: int, directory: Path) -> list[Finding]:
    """Frames that the broker knew to be on disk and that are gone, from the end of the log."""
    found: list[Finding] = []
    for _ in range(2):  # a broker that runs may have gone on between the note and the look
        found = _lost_frames(topic, partition, directory)
        if not found:
            break
    return found


def _lost_frames(topic: str, partition: int, directory: Path) -> list[Finding]:
    state = ReservedFile(directory / "reserved", _FILES, directory).load()
    if state is None:
        return []
    bases, found = current_bases(directory), []
    if state.lost_to > max(bases[:1], default=0):
        sentence = "frames that were on disk were missing when the broker started"
        found.append(Finding(topic, partition, "lost", state.lost_from, state.lost_to - 1, sentence))
    base = state.segment_base
    if base < 0 or (bases and base < bases[-1]):
        return found
    path = segment_path(directory, base)
    try:
        size = _FILES.path_size(path)
    except FileNotFoundError:
        size = -1
    if size < state.segment_size or size < 0:
        have = "the file is gone" if size < 0 else f"the file has {size} bytes"
        sentence = f"{have}, and {state.segment_size} were on disk up to offset {state.end_offset}"
        found.append(Finding(topic, partition, "lost", base, max(base, state.end_offset - 1), sentence, str(path)))
    return found


def audit_segment(file: SegmentFile, limit: int) -> StretchReport:
    """Every frame of a file, also behind damage."""
    directory = Path(file.directory)
    rules = GapRules(
        compacted_below=file.compacted_below,
        look_again=(lambda: last_base(directory)) if file.is_compacted else None,
    )
    checks = StretchChecks(file.topic, file.partition, rules, floor=file.base_offset, limit=limit, by_path=True)
    path = segment_path(directory, file.base_offset)
    try:
        fd = _FILES.open_readonly(path)
    except FileNotFoundError:
        report = checks.finish()
        report.is_gone = True
        return report
    try:
        status = os.fstat(fd)
        frames = FrameFile(_FILES, fd, status.st_size, window_bytes=_WINDOW_BYTES)
        _SegmentWalk(file, path, frames, checks).run()
    finally:
        _FILES.close(fd)
    report = checks.finish()
    report.is_replaced = status.st_ino != file.inode
    return report


class _SegmentWalk:
    def __init__(self, file: SegmentFile, path: Path, frames: FrameFile, checks: StretchChecks) -> None:
        self._file = file
        self._path = str(path)
        self._frames = frames
        self._checks = checks
        self._end = min(file.end, file.stop) if file.is_last else file.end
        self._has_begun = False

    def run(self) -> None:
        position: int | None = 0
        while position is not None and position < self._frames.end:
            header = self._frames.header_at(position)
            position = self._pass_damage(position) if header is None else self._pass_frame(position, header)

    def _pass_frame(self, position: int, header: FrameHeader) -> int | None:
        """Where the next frame is; None: the audit ends before this one."""
        if header.base_offset >= self._end:
            return None
        behind = position + header.frame_bytes
        if not self._has_begun and header.next_offset <= self._file.start:
            self._checks.begin_at(header.next_offset)
            return behind
        self._has_begun = True
        is_good = self._frames.has_good_body(position, header)
        self._checks.frame(header, is_good=is_good, where=Where(self._path, position))
        return behind

    def _pass_damage(self, position: int) -> int | None:
        checks, file = self._checks, self._file
        behind = self._behind(position)
        if behind is None:
            if file.is_last and position >= file.certain_bytes:
                return None
            self._check_version(position)
            next_offset, end = max(file.stop, checks.next_offset), self._frames.end
        else:
            end, next_offset = behind[0], behind[1].base_offset
        if next_offset > file.start and checks.next_offset < self._end:
            self._has_begun = True
            checks.damage(next_offset, f"{end - position} bytes are no sound frame", Where(self._path, position))
        else:
            checks.begin_at(next_offset)
        return None if behind is None else end

    def _behind(self, position: int) -> tuple[int, FrameHeader] | None:
        """The next good frame: where the bad one says that it ends, if one is there, or wherever one is found."""
        frames, standing = self._frames, self._checks.standing
        try:
            claimed = position + unpack_header(frames.bytes_at(position, HEADER_BYTES)).frame_bytes
        except InvalidFrame:
            claimed = -1
        header = frames.header_at(claimed) if position < claimed < frames.end else None
        if header is not None and standing.allows(header):
            return claimed, header
        return frames.next_good(position + ALIGNMENT, standing)

    def _check_version(self, position: int) -> None:
        """UnsupportedVersion for a frame of a later version, unless it is one of ours with its version damaged."""
        if position + HEADER_BYTES > self._frames.end:
            return
        start = bytearray(self._frames.bytes_at(position, HEADER_BYTES))
        start[_VERSION_AT] = VERSION
        try:
            read_stamped_header(start)
        except InvalidFrame:
            name = f"{self._file.topic}-{self._file.partition}"
            check_version(name, self._frames.bytes_at(position, _VERSION_AT + 1))
