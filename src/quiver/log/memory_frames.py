"""A log of frames in memory, in segments like a log on disk, so that retention works the same way."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from quiver.log.epoch_history import EpochHistory
from quiver.log.removed_front import RemovedFront
from quiver.log.retention import PassedTimes, SegmentAge, count_to_drop, is_due_to_roll
from quiver.log.segment.index import NO_MESSAGES, PRIORITIES
from quiver.log.segment_appender import AppendPlan, SegmentLimits, split_runs
from quiver.log.segment_view import out_of_range
from quiver.model.errors import InvalidRequest
from quiver.records.header import StampedFrame, read_stamped_header


class MemorySegment:
    """Parallel lists, one entry per frame. Frames are copies: a body may be a view into a larger network buffer.

    For each priority, `places` has the numbers of its frames, and `counts` the messages up to each of them.
    """

    __slots__ = ("base_offset", "bases", "counts", "ends", "epochs", "frames", "places", "size_bytes", "times")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.frames: list[bytes] = []
        self.bases: list[int] = []
        self.ends: list[int] = []
        self.times: list[int] = []
        self.epochs: list[int] = []
        self.places: list[list[int]] = [[] for _ in range(PRIORITIES)]
        self.counts: list[list[int]] = [[] for _ in range(PRIORITIES)]
        self.size_bytes = 0

    def add(self, frame: StampedFrame) -> None:
        header = frame.header
        counts = self.counts[header.priority]
        self.places[header.priority].append(len(self.frames))
        counts.append((counts[-1] if counts else 0) + header.message_count)
        self.frames.append(b"".join((frame.header_bytes, frame.body)))
        self.bases.append(header.base_offset)
        self.ends.append(header.base_offset + header.last_offset_delta + 1)
        self.times.append(header.append_time_ms)
        self.epochs.append(header.leader_epoch)
        self.size_bytes += header.frame_bytes

    def holes(self, end_offset: int) -> list[tuple[int, int]]:
        """Offsets from its first one up to `end_offset` that have no message."""
        if end_offset - self.base_offset == sum(counts[-1] for counts in self.counts if counts):
            return []
        found, start = [], self.base_offset
        for frame, base, end in zip(self.frames, self.bases, self.ends, strict=True):
            found += [(start, base), (base + read_stamped_header(frame).message_count, end)]
            start = end
        found.append((start, end_offset))
        return [(low, high) for low, high in found if low < high]

    def cut(self, count: int) -> None:
        for column in (self.frames, self.bases, self.ends, self.times, self.epochs):
            del column[count:]
        for places, counts in zip(self.places, self.counts, strict=True):
            kept = bisect_left(places, count)
            del places[kept:], counts[kept:]
        self.size_bytes = sum(map(len, self.frames))

    def find_priority(self, offset: int, priorities: int) -> int | None:
        first = bisect_right(self.ends, offset)
        found = [
            places[at]
            for priority, places in enumerate(self.places)
            if priorities >> priority & 1 and (at := bisect_left(places, first)) < len(places)
        ]
        return self.bases[min(found)] if found else None

    def count_from(self, offset: int) -> list[int]:
        first = bisect_right(self.ends, offset)
        result = []
        for places, counts in zip(self.places, self.counts, strict=True):
            at = bisect_left(places, first)
            count = (counts[-1] if counts else 0) - (counts[at - 1] if at else 0)
            if at < len(places) and places[at] == first and self.bases[first] < offset:
                whole = counts[at] - (counts[at - 1] if at else 0)
                count -= whole - min(whole, self.ends[first] - offset)
            result.append(count)
        return result


class MemoryFrames:
    """A log that waits for nothing. One caller at a time; `start_offset` is where it begins while empty."""

    def __init__(
        self, log_id: str, start_offset: int, limits: SegmentLimits, *, removed: RemovedFront | None = None
    ) -> None:
        self.log_id = log_id
        self.limits = limits
        self.end_offset = start_offset
        self.frames_end = start_offset
        """After the last frame."""
        self.size_bytes = 0
        self.last_append_time_ms = 0
        self.last_epoch = -1
        self.epochs = EpochHistory()
        self._segments = [MemorySegment(start_offset)]
        self._first_times, self._last_times = PassedTimes(), PassedTimes()
        self.removed = removed or RemovedFront()

    def follow(self, *, frames_end: int, last_append_time_ms: int, epochs: EpochHistory, last_epoch: int) -> None:
        """The log continues after frames that are elsewhere."""
        self.frames_end, self.last_append_time_ms = frames_end, last_append_time_ms
        self.epochs, self.last_epoch = epochs, last_epoch

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset

    def append(self, frames: Sequence[StampedFrame]) -> None:
        if not frames:
            return
        plan = AppendPlan(
            frames,
            end_offset=self.end_offset,
            frames_end=self.frames_end,
            epoch=self.last_epoch,
            append_time_ms=self.last_append_time_ms,
        )
        if plan.epoch_starts:
            self.epochs = self.epochs.begun(plan.epoch_starts, start_offset=self.start_offset)
        active = self._segments[-1]
        is_old = bool(active.frames) and plan.append_time_ms - active.times[0] >= self.limits.roll_after_ms
        room = 0 if is_old else self.limits.segment_bytes - active.size_bytes
        for number, run in enumerate(split_runs(frames, room, self.limits.segment_bytes, is_empty=not active.frames)):
            if number:
                active = MemorySegment(run[0].header.base_offset)
                self._segments.append(active)
            for frame in run:
                active.add(frame)
        self.size_bytes += plan.size_bytes
        self.last_append_time_ms = plan.append_time_ms
        self.last_epoch = plan.epoch
        self.end_offset = self.frames_end = plan.end_offset

    def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> tuple[list[bytes], int] | None:
        """Whole frames from the one with `offset`, or the first after it, and the offset after them; None if there is
        none."""
        end = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        if not self.start_offset <= offset <= self.end_offset:
            raise out_of_range(self.log_id, offset, self.start_offset, self.end_offset)
        for segment in self._segments[self._segment_index(offset) :]:
            first = bisect_right(segment.ends, offset)
            stop = bisect_right(segment.ends, end)
            if first >= stop:
                continue
            size = 0
            for index in range(first, stop):
                size += len(segment.frames[index])
                if size > max_bytes and index > first:
                    stop = index
                    break
            return segment.frames[first:stop], segment.ends[stop - 1]
        return None

    @property
    def segments(self) -> Sequence[MemorySegment]:
        """The oldest first; the last one is appended to."""
        return self._segments

    def replace(self, old: Sequence[MemorySegment], new: MemorySegment) -> bool:
        """A segment takes the place of closed ones; False when they are no longer all there."""
        if any(segment not in self._segments[:-1] for segment in old):
            return False
        at = self._segments.index(old[0])
        self._segments[at : at + len(old)] = [new]
        self._recount()
        return True

    def frames(self) -> list[bytes]:
        """Every frame, oldest first."""
        return [frame for segment in self._segments for frame in segment.frames]

    def offset_for_time(self, time_ms: int) -> int:
        for segment in self._segments:
            index = bisect_left(segment.times, time_ms)
            if index < len(segment.times):
                return segment.bases[index]
        return self.end_offset

    def end_offset_of_epoch(self, epoch: int) -> int:
        return self.epochs.end_offset_of(epoch, start_offset=self.start_offset, end_offset=self.frames_end)

    def find_priority(self, offset: int, priorities: int) -> int | None:
        """The first frame that ends after an offset and has one of the priorities (a bit each)."""
        for segment in self._segments[self._segment_index(offset) :]:
            found = segment.find_priority(offset, priorities)
            if found is not None:
                return found
        return None

    def count_by_priority(self, offset: int) -> list[int]:
        """Messages at and after an offset."""
        counts = list(NO_MESSAGES)
        for segment in self._segments[self._segment_index(offset) :]:
            counts = [count + more for count, more in zip(counts, segment.count_from(offset), strict=True)]
        return counts

    def truncate(self, offset: int) -> None:
        if offset >= self.end_offset:
            if self.start_offset == self.end_offset:
                self.last_append_time_ms = 0
            return
        if offset < self.start_offset:
            raise out_of_range(self.log_id, offset, self.start_offset, self.end_offset)
        index = self._segment_index(offset)
        segment = self._segments[index]
        count = bisect_right(segment.ends, offset)
        if count < len(segment.bases) and segment.bases[count] < offset:
            raise InvalidRequest(problem=f"offset {offset} is inside a frame")
        segment.cut(count)
        del self._segments[index + 1 :]
        self.end_offset = offset
        self._recount()
        kept = [segment for segment in self._segments if segment.frames]
        self.last_epoch = kept[-1].epochs[-1] if kept else -1
        self.last_append_time_ms = kept[-1].times[-1] if kept else 0
        self.frames_end = kept[-1].ends[-1] if kept else min(offset, self.frames_end)
        self.epochs = self.epochs.truncated(self.frames_end)

    def drop_front(self, offset: int) -> int:
        keep = min(self._segment_index(offset), len(self._segments) - 1)
        for segment, following in zip(self._segments[:keep], self._segments[1:], strict=False):
            self.removed.add(segment.holes(following.base_offset))
        del self._segments[:keep]
        self._recount()
        return self.start_offset

    def roll(self) -> None:
        if self._segments[-1].frames:
            self._segments.append(MemorySegment(self.end_offset))

    def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        """Like that of files."""
        active = self._segments[-1]
        if active.frames and is_due_to_roll(
            size_bytes=active.size_bytes,
            first_append_time_ms=self._first_times.passed(active.base_offset, active.times[0], now_ms),
            now_ms=now_ms,
            roll_after_ms=self.limits.roll_after_ms,
            retention_bytes=retention_bytes,
        ):
            self.roll()
        count = count_to_drop(
            [SegmentAge(segment.size_bytes, self._last_time(segment, now_ms)) for segment in self._segments[:-1]],
            total_bytes=self.size_bytes,
            now_ms=now_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        for times in (self._first_times, self._last_times):
            times.forget_below(self.start_offset)
        return self._segments[count].base_offset

    def _last_time(self, segment: MemorySegment, now_ms: int) -> int:
        return self._last_times.passed(segment.base_offset, segment.times[-1], now_ms) if segment.times else 0

    def _segment_index(self, offset: int) -> int:
        return max(0, bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1)

    def _recount(self) -> None:
        self.size_bytes = sum(segment.size_bytes for segment in self._segments)
