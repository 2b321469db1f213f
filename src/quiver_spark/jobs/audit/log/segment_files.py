"""The audit of segment files: every frame of one, and whether the end that the broker knew is still there."""

from pathlib import Path
from typing import NamedTuple

from quiver.model.errors import InvalidFrame
from quiver.reader.frame_version import check_version
from quiver.reader.segment_directory import FrameFile, SegmentDirectory
from quiver.records.header import (
    ALIGNMENT,
    HEADER_BYTES,
    VERSION,
    FrameHeader,
    read_stamped_header,
    unpack_header,
)
from quiver_spark.jobs.audit.finding import Finding
from quiver_spark.jobs.audit.log.range_checks import FilePosition, GapRules, RangeChecks, RangeReport

_VERSION_AT = 2


class SegmentFile(NamedTuple):
    """One file as it was when the audit was planned. Sent to the workers."""

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
    """Of the last one: bad bytes from here on, with nothing good after them, are a write under way or cut short."""
    start: int
    end: int
    """The offsets that the audit is about; of the last file nothing is from `stop` on, which was written since."""
    compacted_below: int
    is_compacted: bool


def lost_frames(topic: str, partition: int, directory: Path) -> list[Finding]:
    """Frames that the broker knew to be on disk and that are gone, from the end of the log."""
    found: list[Finding] = []
    for _ in range(2):  # a broker that runs may have gone on between the note and the look
        found = _lost_frames(topic, partition, directory)
        if not found:
            break
    return found


def _lost_frames(topic: str, partition: int, directory: Path) -> list[Finding]:
    files = SegmentDirectory(directory)
    state = files.known_end()
    if state is None:
        return []
    bases, found = files.base_offsets(), []
    if state.lost_to > max(bases[:1], default=0):
        sentence = "frames that were on disk were missing when the broker started"
        found.append(Finding(topic, partition, "lost", state.lost_from, state.lost_to - 1, sentence))
    base = state.segment_base
    if base < 0 or (bases and base < bases[-1]):
        return found
    size = files.size_bytes(base)
    if size is None or size < state.segment_size:
        have = "the file is gone" if size is None else f"the file has {size} bytes"
        sentence = f"{have}, and {state.segment_size} were on disk up to offset {state.end_offset}"
        last, path = max(base, state.end_offset - 1), str(files.path(base))
        found.append(Finding(topic, partition, "lost", base, last, sentence, path))
    return found


def audit_segment(file: SegmentFile, limit: int) -> RangeReport:
    """Every frame of a file, also after damage."""
    files = SegmentDirectory(Path(file.directory))
    rules = GapRules(
        compacted_below=file.compacted_below,
        look_again=files.last_base_offset if file.is_compacted else None,
    )
    checks = RangeChecks(file.topic, file.partition, rules, floor=file.base_offset, limit=limit, by_path=True)
    try:
        with files.open(file.base_offset) as segment:
            _SegmentWalk(file, segment.path, segment.frames, checks).run()
    except FileNotFoundError:
        report = checks.finish()
        report.is_gone = True
        return report
    report = checks.finish()
    report.is_replaced = segment.inode != file.inode
    return report


class _SegmentWalk:
    def __init__(self, file: SegmentFile, path: Path, frames: FrameFile, checks: RangeChecks) -> None:
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
        following = position + header.frame_bytes
        if not self._has_begun and header.next_offset <= self._file.start:
            self._checks.begin_at(header.next_offset)
            return following
        self._has_begun = True
        is_good = self._frames.has_good_body(position, header)
        self._checks.frame(header, is_good=is_good, where=FilePosition(self._path, position))
        return following

    def _pass_damage(self, position: int) -> int | None:
        checks, file = self._checks, self._file
        following = self._next_good(position)
        if following is None:
            if file.is_last and position >= file.certain_bytes:
                return None
            self._check_version(position)
            next_offset, end = max(file.stop, checks.next_offset), self._frames.end
        else:
            end, next_offset = following[0], following[1].base_offset
        if next_offset > file.start and checks.next_offset < self._end:
            self._has_begun = True
            checks.damage(
                next_offset, f"{end - position} bytes are not a valid frame", FilePosition(self._path, position)
            )
        else:
            checks.begin_at(next_offset)
        return None if following is None else end

    def _next_good(self, position: int) -> tuple[int, FrameHeader] | None:
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
        """Raises UnsupportedVersion for a frame of a later version, unless it is one of ours with its version
        damaged."""
        if position + HEADER_BYTES > self._frames.end:
            return
        start = bytearray(self._frames.bytes_at(position, HEADER_BYTES))
        start[_VERSION_AT] = VERSION
        try:
            read_stamped_header(start)
        except InvalidFrame:
            name = f"{self._file.topic}-{self._file.partition}"
            check_version(name, self._frames.bytes_at(position, _VERSION_AT + 1))
