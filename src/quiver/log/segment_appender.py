"""Appending to a log of segments: all frames of a call or none, over as many segments as it takes."""

from collections.abc import Sequence
from typing import NoReturn

from quiver.log.append_plan import AppendPlan, SegmentLimits, split_runs
from quiver.log.files.write_error import is_lack_of_room, storage_error
from quiver.log.recovery.epoch_file import EpochFile
from quiver.log.segment.frame_write import write_frames
from quiver.log.segment.segment import Segment
from quiver.log.segment_files import SegmentFiles
from quiver.log.segment_view import SegmentView, Tail
from quiver.records.header import StampedFrame

Run = tuple[Segment, Sequence[StampedFrame]]


class SegmentAppender:
    def __init__(self, view: SegmentView, files: SegmentFiles, epochs: EpochFile, limits: SegmentLimits) -> None:
        self.limits = limits
        self._view = view
        self._files = files
        self._epochs = epochs

    def plan(self, frames: Sequence[StampedFrame]) -> AppendPlan:
        """Checks frames; what cannot be appended is refused here, before anything is written."""
        tail = self._view.tail
        return AppendPlan(
            frames,
            end_offset=tail.end_offset,
            frames_end=tail.frames_end,
            epoch=tail.last_epoch,
            append_time_ms=tail.last_append_time_ms,
        )

    def is_ready(self, plan: AppendPlan) -> bool:
        """Whether an append is one write to an open file, so that it may run on the loop."""
        segment = self._view.tail.segment
        if segment is None or segment.file.fd < 0 or segment.index.is_full or self._files.failure is not None:
            return False
        if plan.epoch_starts or (segment.size and (segment.first_append_time_ms is None or not segment.is_counted)):
            return False
        return self._has_room(segment, plan)

    def append(self, frames: Sequence[StampedFrame], plan: AppendPlan, *, sync: bool) -> None:
        """Writes all frames or none, and shows them to readers."""
        runs = self.write(frames, plan)
        if sync:
            self._files.sync_segment(runs[-1][0])
        self.publish(runs, plan, synced=sync)

    def write(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> list[Run]:
        """Writes all frames or none; nobody sees them before `publish`, and nothing else may be written before it.

        `plan` comes from the same frames, and nothing was appended since.
        """
        self._files.check_writable()
        segment = self._view.tail.segment
        self._prepare(segment, plan)
        if segment is not None and self._has_room(segment, plan):
            runs: list[Run] = [(segment, frames)]
            try:
                write_frames(self._files.open_files, segment, frames)
            except OSError as error:
                self._undo(runs, error)
            return runs
        return self._write_over_segments(segment, frames, plan)

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

    def _prepare(self, segment: Segment | None, plan: AppendPlan) -> None:
        """New epochs are on disk before their first frame, and what the index counts on from is known."""
        try:
            if plan.epoch_starts:
                self._epochs.begin(plan.epoch_starts, self._view.segments, self._view.tail.frames_end)
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
        self, segment: Segment | None, frames: Sequence[StampedFrame], plan: AppendPlan
    ) -> list[Run]:
        """Writes what fits to the active segment, and the rest to as many new ones as it takes."""
        room, is_empty, segment_bytes = 0, False, self.limits.segment_bytes
        if segment is not None and not self._is_old(segment, plan):
            room, is_empty = segment_bytes - segment.size, not segment.size
        runs: list[Run] = []
        try:
            for number, run in enumerate(split_runs(frames, room, segment_bytes, is_empty=is_empty)):
                if number:
                    if segment is not None:
                        self._files.close_segment(segment)
                    segment = self._files.create_segment(run[0].header.base_offset)
                if segment is not None and run:
                    runs.append((segment, run))
                    write_frames(self._files.open_files, segment, run)
        except OSError as error:
            self._undo(runs, error)
        return runs

    def publish(self, runs: list[Run], plan: AppendPlan, *, synced: bool) -> None:
        """Shows readers what was written."""
        view = self._view
        before, segments = view.tail, view.segments
        view.remember(runs[0][1][0].header.base_offset, runs[0][0], runs[0][0].size)
        for segment, run in runs:
            segment.commit(run)
            if segment.index.is_full:
                segment.index.flush()
        active, end = runs[-1][0], plan.end_offset
        if active is not before.segment:
            segments = (*segments, *[segment for segment, _ in runs if segment not in segments])
        tail = Tail(end, active, active.size, plan.append_time_ms, active.max_timestamp_ms, plan.epoch, end)
        self._files.publish(segments, tail, synced=synced)

    def _undo(self, runs: list[Run], error: OSError) -> NoReturn:
        """Removes what a failed append wrote. Lack of room is reported and the log goes on; all else is final."""
        known, files = self._view.segments, self._files
        try:
            files.remove_segments([segment for segment, _ in runs if segment not in known][::-1])
            for segment, _ in runs:
                if segment in known:
                    files.cut_to_size(segment, sync=False)
        except OSError as second:
            files.fail(f"a write failed ({error}) and could not be undone ({second})")
        if not is_lack_of_room(error):
            files.fail(f"a write failed: {error}")
        files.check_writable()
        raise storage_error(self._view.log_id, error) from error
