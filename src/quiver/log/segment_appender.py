"""Appends to a log of segments: all frames of a call or none, in as many segments as needed.

An append has three steps: `write` the frames, make them durable, `publish` the new tail to readers. Until the last
one nobody sees the frames, and only the caller knows the segments that the first one created.
"""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from quiver.log.epoch_history import EpochStart
from quiver.log.files.write_error import is_lack_of_room, storage_error
from quiver.log.recovery.epoch_file import EpochFile
from quiver.log.segment.segment import Segment
from quiver.log.segment_files import SegmentFiles
from quiver.log.segment_view import SegmentView, Tail
from quiver.model.errors import InvalidRequest, PartitionOffline, StaleEpoch
from quiver.records.header import HEADER_BYTES, StampedFrame

Run = tuple[Segment, Sequence[StampedFrame]]
"""Frames that were written to one segment."""


class SegmentLimits(NamedTuple):
    """When a segment is full: at a size, or when its first frame has an age."""

    segment_bytes: int
    roll_after_ms: int


class AppendPlan:
    """Facts about frames to be appended, after checks: their size, and the state of the log after them."""

    __slots__ = ("append_time_ms", "end_offset", "epoch", "epoch_starts", "size_bytes")

    def __init__(
        self, frames: Sequence[StampedFrame], *, end_offset: int, frames_end: int, epoch: int, append_time_ms: int
    ) -> None:
        size = 0
        starts: tuple[EpochStart, ...] = ()
        for header, _, body in frames:
            if header.base_offset < end_offset:
                raise InvalidRequest(problem=f"offset {header.base_offset} is below the end of the log, {end_offset}")
            if header.leader_epoch != epoch:
                if header.leader_epoch < epoch:
                    raise StaleEpoch(epoch=header.leader_epoch, current=epoch)
                epoch = header.leader_epoch
                starts = (*starts, EpochStart(epoch, frames_end))
            if header.append_time_ms < append_time_ms:
                raise InvalidRequest(problem=f"append time {header.append_time_ms} is before {append_time_ms}")
            if len(body) != header.length:
                raise InvalidRequest(problem=f"a body has {len(body)} bytes, but its header says {header.length}")
            end_offset = frames_end = header.base_offset + header.last_offset_delta + 1
            append_time_ms = header.append_time_ms
            size += header.length
        self.size_bytes = size + HEADER_BYTES * len(frames)
        self.end_offset = end_offset
        self.epoch = epoch
        self.epoch_starts = starts
        """Epochs without a frame in the log yet."""
        self.append_time_ms = append_time_ms


def split_runs(
    frames: Sequence[StampedFrame], room: int, segment_bytes: int, *, is_empty: bool
) -> list[list[StampedFrame]]:
    """Frames by segments: the first run fits into `room` (it may be empty), each other one makes a new segment.

    A frame larger than a segment gets one to itself, or goes into the active one if that `is_empty`.
    """
    runs: list[list[StampedFrame]] = [[]]
    for frame in frames:
        size = frame.header.frame_bytes
        starts_segment = is_empty if len(runs) == 1 and not runs[0] else not runs[-1]
        if size > room and not starts_segment:
            runs.append([])
            room = segment_bytes
        runs[-1].append(frame)
        room -= size
    return runs


class SegmentAppender:
    """One caller at a time. Blocks, except where `is_ready` says otherwise."""

    def __init__(self, view: SegmentView, files: SegmentFiles, epochs: EpochFile, limits: SegmentLimits) -> None:
        self.limits = limits
        self._view = view
        self._files = files
        self._epochs = epochs

    def plan(self, frames: Sequence[StampedFrame]) -> AppendPlan:
        """Checks frames, and refuses those that cannot be appended before anything is written."""
        tail = self._view.tail
        return AppendPlan(
            frames,
            end_offset=tail.end_offset,
            frames_end=tail.frames_end,
            epoch=tail.last_epoch,
            append_time_ms=tail.last_append_time_ms,
        )

    def is_ready(self, plan: AppendPlan) -> bool:
        """Whether `write` is a single write to an open file, so that it may run on the loop."""
        segment = self._view.tail.segment
        if segment is None or segment.file.fd < 0 or segment.index.is_full or self._files.failure is not None:
            return False
        if segment.size + plan.size_bytes > self.limits.segment_bytes:
            return False
        if not segment.size:
            return True
        first = segment.first_append_time_ms
        return first is not None and segment.is_counted and plan.append_time_ms - first < self.limits.roll_after_ms

    def append(self, frames: Sequence[StampedFrame], plan: AppendPlan, *, sync: bool) -> None:
        """All three steps. `plan` comes from the same frames, and nothing was appended since."""
        runs = self.write(frames, plan, is_synced_next=sync)
        if sync:
            self.make_durable(runs)
        self.publish(runs, plan, synced=sync)

    def write(self, frames: Sequence[StampedFrame], plan: AppendPlan, *, is_synced_next: bool = False) -> list[Run]:
        """The first step: all frames are in files, or none. Pass the result to `publish` or to `abandon`."""
        self._files.check_writable()
        segment = self._view.tail.segment
        self._prepare(segment)
        if segment is None or not self._has_room(segment, plan):
            return self._write_over_segments(segment, frames, plan, is_synced_next=is_synced_next)
        return self._write_to(segment, frames, is_synced_next=is_synced_next)

    def write_ready(self, frames: Sequence[StampedFrame]) -> list[Run]:
        """As `write`, when `is_ready` has just said that it is a single write."""
        segment = self._view.tail.segment
        assert segment is not None
        return self._write_to(segment, frames)

    def _write_to(
        self, segment: Segment, frames: Sequence[StampedFrame], *, is_synced_next: bool = False
    ) -> list[Run]:
        runs: list[Run] = [(segment, frames)]
        fd = self._hold(segment)
        try:
            segment.write(frames, is_synced_next=is_synced_next, pinned=fd)
        except OSError as error:
            self._undo(runs, error)
        finally:
            self._files.open_files.unpin(segment.file)
        return runs

    def _hold(self, segment: Segment) -> int:
        """Opens a file before anything is written: to undo a write that fails needs no descriptor then."""
        try:
            return self._files.open_files.pin(segment.file)
        except OSError as error:
            self._undo([], error)

    def make_durable(self, runs: list[Run]) -> None:
        """The second step. Only the last segment has unsynced bytes: `write` syncs one before it begins the next."""
        try:
            self._files.sync_segment(runs[-1][0])
        except PartitionOffline:
            self.abandon(runs)
            raise

    def publish(self, runs: list[Run], plan: AppendPlan, *, synced: bool) -> None:
        """The last step: readers see the frames."""
        view = self._view
        before, segments = view.tail, view.segments
        first, frames = runs[0]
        view.remember(frames[0].header.base_offset, first, first.size)
        for segment, run in runs:
            segment.commit(run)
            if segment.index.is_full:
                segment.index.flush()
        active, end = runs[-1][0], plan.end_offset
        if active is not before.segment:
            segments = (*segments, *[segment for segment, _ in runs if segment not in segments])
        tail = Tail(end, active, active.size, plan.append_time_ms, active.max_timestamp_ms, plan.epoch, end)
        if plan.epoch_starts:
            self._epochs.note(plan.epoch_starts)
        self._files.publish(segments, tail, synced=synced)

    def abandon(self, runs: list[Run]) -> None:
        """Called instead of `publish` after a failed sync: closes the new segments, which nobody else knows.

        Their files stay: recovery finds out how much of them is on disk.
        """
        for segment in self._new_segments(runs):
            segment.forget()

    def roll(self) -> None:
        """Closes the active segment and begins an empty one."""
        tail = self._view.tail
        if tail.segment is None or not tail.segment.size:
            return
        self._files.check_writable()
        self._files.close_segment(tail.segment)
        try:
            new = self._files.create_segment(tail.end_offset)
        except OSError as error:
            self._undo([], error)
        self._files.publish((*self._view.segments, new), tail._replace(segment=new, size=0), synced=True)

    def _prepare(self, segment: Segment | None) -> None:
        """Loads the counts that the index continues."""
        try:
            if segment is not None and not segment.is_counted:
                segment.count()
        except OSError as error:
            raise storage_error(self._view.log_id, error) from error

    def _has_room(self, segment: Segment, plan: AppendPlan) -> bool:
        return segment.size + plan.size_bytes <= self.limits.segment_bytes and not self._is_old(segment, plan)

    def _is_old(self, segment: Segment, plan: AppendPlan) -> bool:
        if not segment.size:
            return False
        first = segment.first_append_time_ms
        if first is None:
            first = segment.times()[0]
        return plan.append_time_ms - first >= self.limits.roll_after_ms

    def _write_over_segments(
        self, segment: Segment | None, frames: Sequence[StampedFrame], plan: AppendPlan, *, is_synced_next: bool
    ) -> list[Run]:
        """Writes what fits into the active segment, and the rest into as many new ones as needed."""
        room, is_empty, segment_bytes = 0, False, self.limits.segment_bytes
        if segment is not None and not self._is_old(segment, plan):
            room, is_empty = segment_bytes - segment.size, not segment.size
        runs: list[Run] = []
        active = segment
        if active is not None:
            self._hold(active)
        try:
            for number, run in enumerate(split_runs(frames, room, segment_bytes, is_empty=is_empty)):
                if number:
                    if segment is not None:
                        self._files.close_segment(segment)
                    segment = self._files.create_segment(run[0].header.base_offset)
                if segment is not None and run:
                    runs.append((segment, run))
                    segment.write(run, is_synced_next=is_synced_next)
        except OSError as error:
            self._undo(runs, error)
        except PartitionOffline:
            self.abandon(runs)
            raise
        finally:
            if active is not None:
                self._files.open_files.unpin(active.file)
        return runs

    def _new_segments(self, runs: list[Run]) -> list[Segment]:
        known = self._view.segments
        return [segment for segment, _ in runs if segment not in known]

    def _undo(self, runs: list[Run], error: OSError) -> NoReturn:
        """Removes what a failed write left. If the disk is full, this is reported and the log stays usable; any other
        failure is final."""
        new, files = self._new_segments(runs), self._files
        try:
            files.remove_segments(new[::-1])
            for segment, _ in runs:
                if segment not in new:
                    files.cut_to_size(segment, sync=False)
        except OSError as second:
            files.fail(f"a write failed ({error}) and could not be undone ({second})")
        if not is_lack_of_room(error):
            files.fail(f"a write failed: {error}")
        files.check_writable()
        raise storage_error(self._view.log_id, error) from error
