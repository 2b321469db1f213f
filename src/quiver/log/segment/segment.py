"""One segment: a file of frames and its index."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from quiver.log.files.open_files import OpenFile, OpenFiles
from quiver.log.segment.frame_scan import ANYWHERE, FrameFile
from quiver.log.segment.index import (
    ANY_PRIORITY,
    ENTRY_BYTES,
    INDEX_INTERVAL_BYTES,
    NO_MESSAGES,
    Counts,
    DamagedIndex,
    IndexEntry,
    SegmentIndex,
    among,
)
from quiver.model.limits import MIB
from quiver.records.header import ALIGNMENT, CONTROL, HEADER_BYTES, FrameHeader, StampedFrame
from quiver.system.files import IOV_MAX, Buffer

_NO_TIMESTAMP = -(2**63)
_REBUILD_WINDOW_BYTES = 256 * 1024
_HOLES = 1_000
_PART_BYTES = 2 * MIB


def segment_path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}.log"


class FoundFrame(NamedTuple):
    """Where a frame is."""

    position: int
    header: FrameHeader


class Gap(NamedTuple):
    """Bytes without a readable frame header, and the frame after them (None: there is none in the segment)."""

    position: int
    behind: FoundFrame | None


class Segment:
    """The frames from `base_offset` on. `size` counts committed bytes, without what a failed append left."""

    def __init__(
        self, directory: Path, base_offset: int, open_files: OpenFiles, *, size: int, index_size: int
    ) -> None:
        self.base_offset = base_offset
        self.file = OpenFile(segment_path(directory, base_offset))
        index_file = OpenFile(directory / f"{base_offset:020d}.index")
        self.index = SegmentIndex(index_file, open_files, index_size // ENTRY_BYTES)
        self.size = size
        self.max_timestamp_ms = _NO_TIMESTAMP
        self.first_append_time_ms: int | None = None
        self.last_append_time_ms: int | None = None
        self._open_files = open_files
        self._counts: Counts | None = None if size else NO_MESSAGES
        self.priorities = ANY_PRIORITY if size else 0
        """The priorities that may have messages, a bit each."""
        self._counts_lock = Lock()

    @property
    def path(self) -> Path:
        return self.file.path

    def write(self, frames: Sequence[StampedFrame], *, is_synced_next: bool = False, pinned: int = -1) -> None:
        """Writes headers and bodies after the committed end, without joining them. `commit` counts them.

        Of a large write that `is_synced_next`, the disk gets the first part while the rest is copied. Raises OSError
        if the file system writes less; some bytes may then be in the file. `pinned` is the caller's descriptor.
        """
        fd, position = self._open_files.pin(self.file) if pinned < 0 else pinned, self.size
        try:
            for part in _parts(frames, _PART_BYTES) if is_synced_next else (frames,):
                start, position = position, self._write(fd, part, position)
                if is_synced_next and position - start >= _PART_BYTES:
                    self._open_files.files.start_writeback(fd, start, position - start)
        finally:
            self.file.dirty = True  # after the bytes: a sync that began before them has cleared it
            if pinned < 0:
                self._open_files.unpin(self.file)

    def _write(self, fd: int, frames: Sequence[StampedFrame], position: int) -> int:
        """Returns the position after the frames."""
        buffers: list[Buffer] = []
        size = 0
        for header, header_bytes, body in frames:
            buffers.append(header_bytes)
            buffers.append(body)
            size += HEADER_BYTES + header.length
        files = self._open_files.files
        if len(buffers) > IOV_MAX:
            return files.write_all(fd, buffers, position)
        written = files.pwritev(fd, buffers, position)
        if written != size:
            return files.write_all(fd, _after(buffers, written), position + written)
        return position + size

    def commit(self, frames: Sequence[StampedFrame]) -> None:
        """Counts frames that were written after the end."""
        position = self.size
        index, latest, counts = self.index, self.max_timestamp_ms, list(self.count())
        priorities = 0
        for header, _, _ in frames:
            if header.max_timestamp_ms > latest:
                latest = header.max_timestamp_ms
            if position >= index.due_position:
                index.add(header.base_offset, position, header.append_time_ms, latest, counts)
            if not header.attributes & CONTROL:
                counts[header.priority] += header.record_count
                priorities |= 1 << header.priority
            position += HEADER_BYTES + header.length
        self.max_timestamp_ms = latest
        if self.first_append_time_ms is None and not self.size:
            self.first_append_time_ms = frames[0].header.append_time_ms
        self.last_append_time_ms = frames[-1].header.append_time_ms
        self.size = position
        with self._counts_lock:
            self._counts = tuple(counts)
            self.priorities |= priorities

    def truncate(self, position: int) -> None:
        """From now on only the bytes before a frame boundary count; the log cuts the file."""
        self.size = position
        self.last_append_time_ms = None
        if not position:
            self.first_append_time_ms = None
            self.max_timestamp_ms = _NO_TIMESTAMP
        try:
            self.index.cut(position)
        except DamagedIndex:
            self.rebuild_index()
        self.set_counts(self.count_below(position))

    @contextmanager
    def frames(self, *, window_bytes: int = 8 * 1024) -> Iterator[FrameFile]:
        fd = self._open_files.pin(self.file)
        try:
            yield FrameFile(self._open_files.files, fd, self.size, window_bytes=window_bytes)
        finally:
            self._open_files.unpin(self.file)

    def find(
        self, *, passed: Callable[[IndexEntry], bool], wanted: Callable[[FrameHeader], bool]
    ) -> tuple[FoundFrame | None, list[Gap]]:
        """The first frame that is wanted, and the damage before it.

        `passed` says of an index entry that the wanted frame is not before it; `wanted` is false for frames up to
        some place and true from there on.
        """
        found, gaps, _ = self._search(passed, wanted)
        return found, gaps

    def find_priority(self, offset: int, priorities: int) -> tuple[FoundFrame | None, list[Gap]]:
        """Like find: the first frame that ends after an offset and has one of the priorities (a bit each)."""
        start, gaps, before = self._search(
            lambda entry: entry.offset <= offset, lambda header: header.last_offset >= offset
        )
        if start is None or priorities >> start.header.priority & 1:
            return start, gaps
        passed_count, first = among(before, priorities), start.header.base_offset
        if among(self.count(), priorities) <= passed_count:
            return None, gaps
        found, more, _ = self._search(
            lambda entry: among(entry.counts, priorities) <= passed_count,
            lambda header: header.base_offset > first and bool(priorities >> header.priority & 1),
        )
        return found, gaps + more

    def count_from(self, offset: int) -> Counts:
        """Messages by priority at and after an offset."""
        found, _, before = self._search(
            lambda entry: entry.offset <= offset, lambda header: header.last_offset >= offset
        )
        counts = [all - passed for all, passed in zip(self.count(), before, strict=True)]
        if found is not None and found.header.base_offset < offset:
            left = min(found.header.record_count, found.header.next_offset - offset)
            counts[found.header.priority] -= found.header.record_count - left
        return tuple(max(0, count) for count in counts)

    @property
    def is_counted(self) -> bool:
        """Whether count() needs no read."""
        return self._counts is not None

    def count(self) -> Counts:
        """Messages by priority in the whole segment."""
        counts = self._counts
        if counts is None:
            counts = self.count_below(self.size)
            with self._counts_lock:
                if self._counts is None:  # otherwise the writer has a newer count
                    self._counts, self.priorities = counts, _present(counts)
        return counts

    def set_counts(self, counts: Sequence[int]) -> None:
        """Only the writer calls this."""
        with self._counts_lock:
            self._counts, self.priorities = tuple(counts), _present(counts)

    def count_below(self, position: int) -> Counts:
        """Messages by priority before a frame boundary: those of the last index entry, and of the frames after it."""
        try:
            entry = self.index.last_where(lambda entry: entry.position < position)
        except DamagedIndex:
            entry = None
        with self.frames(window_bytes=8 * 1024 if entry else _REBUILD_WINDOW_BYTES) as frames:
            frames.end = position
            if entry is not None and not _points_well(entry, frames.header_at(entry.position)):
                entry = None
            counts = list(entry.counts) if entry else list(NO_MESSAGES)
            for _, header in _walk_past_gaps(frames, entry.position if entry else 0, []):
                counts[header.priority] += header.message_count
        return tuple(counts)

    def _search(
        self, passed: Callable[[IndexEntry], bool], wanted: Callable[[FrameHeader], bool]
    ) -> tuple[FoundFrame | None, list[Gap], Counts]:
        """Like find, with the count of the messages before the frame (in the whole segment, if there is none)."""
        try:
            return self._walk_to(self.index.last_where(passed), wanted, check_index=True)
        except DamagedIndex:
            self.rebuild_index()
        try:
            return self._walk_to(self.index.last_where(passed), wanted, check_index=False)
        except DamagedIndex:
            return self._walk_to(None, wanted, check_index=False)

    def _walk_to(
        self, entry: IndexEntry | None, wanted: Callable[[FrameHeader], bool], *, check_index: bool
    ) -> tuple[FoundFrame | None, list[Gap], Counts]:
        gaps: list[Gap] = []
        start, counts = (0, list(NO_MESSAGES)) if entry is None else (entry.position, list(entry.counts))
        with self.frames() as frames:
            if entry is not None and not _points_well(entry, frames.header_at(entry.position)):
                raise DamagedIndex
            for position, header in _walk_past_gaps(frames, start, gaps):
                if check_index and position - start >= INDEX_INTERVAL_BYTES and not gaps and not wanted(header):
                    raise DamagedIndex  # this frame should have had an entry
                if wanted(header):
                    return FoundFrame(position, header), gaps, tuple(counts)
                counts[header.priority] += header.message_count
        return None, gaps, tuple(counts)

    def frame_before(self, position: int) -> FoundFrame | None:
        """The last readable frame before a position."""
        found: FoundFrame | None = None
        try:
            entry = self.index.last_where(lambda entry: entry.position < position)
        except DamagedIndex:
            entry = None
        with self.frames() as frames:
            if entry is not None and not _points_well(entry, frames.header_at(entry.position)):
                entry = None
            for at, header in _walk_past_gaps(frames, entry.position if entry else 0, []):
                if at >= position:
                    break
                found = FoundFrame(at, header)
        return found

    def first_frame(self) -> FrameHeader | None:
        with self.frames() as frames:
            return frames.header_at(0)

    def last_frame(self) -> FoundFrame | None:
        """The last frame with a good header."""
        return self.frame_before(self.size)

    def first_with_epoch_above(self, epoch: int) -> FoundFrame | None:
        """The first frame of a later leader epoch."""
        with self.frames() as frames:
            found, _ = self.find(
                passed=lambda entry: _epoch_of(frames.header_at(entry.position)) <= epoch,
                wanted=lambda header: header.leader_epoch > epoch,
            )
        return found

    def times(self) -> tuple[int, int]:
        """Append times of the first and the last frame, zeros when there is none."""
        if self.first_append_time_ms is None:
            first = self.first_frame()
            self.first_append_time_ms = first.append_time_ms if first else 0
        if self.last_append_time_ms is None:
            last = self.last_frame()
            self.last_append_time_ms = last.header.append_time_ms if last else self.first_append_time_ms
        return self.first_append_time_ms, self.last_append_time_ms

    def holes(self, end_offset: int) -> list[tuple[int, int]]:
        """Offsets from its first one up to `end_offset` that have no message; if there are very many, only the
        first."""
        if end_offset - self.base_offset == sum(self.count()):
            return []
        try:
            entries = self.index.entries()
        except DamagedIndex:
            entries = []
        bounds = [(entry.offset, sum(entry.counts), entry.position) for entry in entries]
        bounds = [(self.base_offset, 0, 0), *bounds, (end_offset, sum(self.count()), self.size)]
        found: list[tuple[int, int]] = []
        for (start, before, position), (end, after, stop) in pairwise(bounds):
            if end - start != after - before:
                found += self._holes_between(position, stop, start, end)
            if len(found) > _HOLES:
                break
        return found

    def _holes_between(self, position: int, stop: int, start: int, end: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        with self.frames() as frames:
            for at, header in _walk_past_gaps(frames, position, []):
                if at >= stop or len(found) > _HOLES:
                    break
                found.append((start, header.base_offset))
                start = header.next_offset
                found.append((header.base_offset + header.message_count, start))
        found.append((start, max(start, end)))
        return [(low, high) for low, high in found if low < high]

    def rebuild_index(self) -> None:
        self.index.rebuild(self._entries_from_log)

    def _entries_from_log(self, stop: int | None) -> Iterator[IndexEntry]:
        latest, due, counts = _NO_TIMESTAMP, 0, list(NO_MESSAGES)
        with self.frames(window_bytes=_REBUILD_WINDOW_BYTES) as frames:
            for position, header in _walk_past_gaps(frames, 0, []):
                if stop is not None and position >= stop:
                    return
                latest = max(latest, header.max_timestamp_ms)
                if position >= due:
                    due = position + INDEX_INTERVAL_BYTES
                    yield IndexEntry(header.base_offset, position, header.append_time_ms, latest, tuple(counts))
                counts[header.priority] += header.message_count

    def forget(self) -> None:
        """Closes the files."""
        self._open_files.forget(self.file)
        self._open_files.forget(self.index.file)


def _parts(frames: Sequence[StampedFrame], size_bytes: int) -> Iterator[Sequence[StampedFrame]]:
    """The frames in runs that reach a size; the last may be smaller."""
    start = size = 0
    for number, frame in enumerate(frames, 1):
        size += frame.header.frame_bytes
        if size >= size_bytes:
            yield frames[start:number]
            start, size = number, 0
    if start < len(frames):
        yield frames[start:]


def _after(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """What is left of buffers after their first `count` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if count >= len(buffer):
            count -= len(buffer)
        else:
            rest.append(memoryview(buffer)[count:])
            count = 0
    return rest


def _present(counts: Sequence[int]) -> int:
    """The priorities that occur, a bit each."""
    return sum([1 << priority for priority, count in enumerate(counts) if count])


def _epoch_of(header: FrameHeader | None) -> int:
    if header is None:
        raise DamagedIndex
    return header.leader_epoch


def _points_well(entry: IndexEntry, header: FrameHeader | None) -> bool:
    return header is not None and header.base_offset == entry.offset


def _walk_past_gaps(frames: FrameFile, position: int, gaps: list[Gap]) -> Iterator[FoundFrame]:
    standing = ANYWHERE
    while position < frames.end:
        for at, header in frames.walk(position):
            if header is None:
                behind = frames.next_good(at + ALIGNMENT, standing)
                gaps.append(Gap(at, FoundFrame(*behind) if behind else None))
                position = behind[0] if behind else frames.end
                break
            standing = standing.after(header)
            yield FoundFrame(at, header)
        else:
            return
