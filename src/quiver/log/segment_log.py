"""A log of segment files. Blocking calls; one caller at a time changes a log, others may read beside it.

`quiver.storage.local.log` runs these calls on the loop or in threads. Used alone, a log needs nothing else of Quiver.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from quiver.log.append_plan import AppendPlan, out_of_range, split_runs
from quiver.log.files.open_files import OpenFiles
from quiver.log.files.write_error import is_lack_of_room, storage_error
from quiver.log.recovery.reservation import Reservation
from quiver.log.recovery.reserved_file import LogState
from quiver.log.removed_front import RemovedFront
from quiver.log.retention import PassedTimes, SegmentAge, count_to_drop, is_due_to_roll
from quiver.log.segment.frame_write import write_frames
from quiver.log.segment.segment import Segment
from quiver.log.segment_files import SegmentFiles
from quiver.log.segment_view import Tail
from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import DiskFull, InvalidRequest, PartitionOffline
from quiver.records.header import StampedFrame

_Run = tuple[Segment, Sequence[StampedFrame]]


class SegmentLog(SegmentFiles):
    """Made by `quiver.log.recovery.opening.open_segment_log`."""

    def __init__(
        self,
        log_id: str,
        directory: Path,
        root: Path,
        open_files: OpenFiles,
        *,
        segment_bytes: int,
        roll_after_ms: int,
        snapshots: SnapshotFiles,
        reservation: Reservation,
    ) -> None:
        super().__init__(log_id, directory, root, open_files, snapshots=snapshots, reservation=reservation)
        self.segment_bytes = segment_bytes
        self.roll_after_ms = roll_after_ms
        self._first_times, self._last_times = PassedTimes(), PassedTimes()
        self.removed = RemovedFront()

    def plan(self, frames: Sequence[StampedFrame]) -> AppendPlan:
        """Checks frames; what cannot be appended is refused here, before anything is written."""
        tail = self.tail
        return AppendPlan(
            frames, end_offset=tail.end_offset, epoch=tail.last_epoch, append_time_ms=tail.last_append_time_ms
        )

    def is_ready(self, plan: AppendPlan) -> bool:
        """Whether an append is one write to an open file, so that it may run on the loop."""
        segment = self.tail.segment
        if segment is None or segment.file.fd < 0 or segment.index.is_full or self.failure is not None:
            return False
        if segment.size and (segment.first_append_time_ms is None or not segment.is_counted):
            return False
        return self._has_room(segment, plan)

    def append(self, frames: Sequence[StampedFrame], plan: AppendPlan, *, sync: bool) -> None:
        """Writes all frames or none. `plan` comes from the same frames, and nothing was appended since."""
        self.check_writable()
        segment = self.tail.segment
        self._count_first(segment)
        if segment is not None and self._has_room(segment, plan):
            runs: list[_Run] = [(segment, frames)]
            try:
                write_frames(self.open_files, segment, frames)
            except OSError as error:
                self._undo(runs, error)
        else:
            runs = self._append_over_segments(segment, frames, plan)
        if sync:
            self.sync_segment(runs[-1][0])
        self._commit(runs, plan, synced=sync)

    def _count_first(self, segment: Segment | None) -> None:
        """The index counts on from what is there, so that must be known before more is written."""
        if segment is not None and not segment.is_counted:
            try:
                segment.count()
            except OSError as error:
                raise storage_error(self.log_id, error) from error

    def skip_to(self, offset: int) -> None:
        """Leaves a hole: the next frame is at an offset or above."""
        if offset > self.end_offset:
            self.tail = self.tail._replace(end_offset=offset)

    def roll(self) -> None:
        """Closes the active segment and begins an empty one."""
        segment = self.tail.segment
        if segment is None or not segment.size:
            return
        self.check_writable()
        self.close_segment(segment)
        try:
            new = self.create_segment(self.tail.end_offset)
        except OSError as error:
            self._undo([], error)
        self.publish((*self.segments, new), self.tail._replace(segment=new, size=0), synced=True)

    def drop_front(self, offset: int) -> int:
        """Removes whole segments below an offset; returns the new start."""
        self._drop(sum(1 for following in self.segments[1:] if following.base_offset <= offset))
        return self.start_offset

    def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        """Rolls an old active segment; returns the offset below which everything is too old or too much."""
        active = self.tail.segment
        if active is not None and active.size:
            due = is_due_to_roll(
                size_bytes=active.size,
                first_append_time_ms=self._first_times.passed(active.base_offset, active.times()[0], now_ms),
                now_ms=now_ms,
                roll_after_ms=self.roll_after_ms,
                retention_bytes=retention_bytes,
            )
            if due:
                with contextlib.suppress(DiskFull, PartitionOffline):  # what is too old goes all the same
                    self.roll()
        closed = self.segments[:-1]
        by_time = retention_ms is not None
        times = [self._last_time(segment, now_ms) if by_time else 0 for segment in closed]
        count = count_to_drop(
            [SegmentAge(segment.size, time_ms) for segment, time_ms in zip(closed, times, strict=True)],
            total_bytes=self.size_bytes,
            now_ms=now_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        for passed in (self._first_times, self._last_times):
            passed.forget_below(self.start_offset)
        return self.segments[count].base_offset if count else self.start_offset

    def _last_time(self, segment: Segment, now_ms: int) -> int:
        return self._last_times.passed(
            segment.base_offset, segment.times()[1], now_ms, lambda: self._last_written(segment, now_ms)
        )

    def _last_written(self, segment: Segment, now_ms: int) -> int:
        """By the clock of the file system. Where that has not come yet either, it is set to now, to count from."""
        try:
            written_ms = self._files.modified_ms(segment.path)
            if written_ms > now_ms:
                self._files.set_modified_ms(segment.path, now_ms)
        except OSError:
            return now_ms
        return written_ms

    def truncate(self, offset: int) -> None:
        """Removes frames at and above an offset. The note about the end is cut first, so that recovery agrees."""
        self.check_writable()
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            raise out_of_range(self.log_id, offset, self.start_offset, self.end_offset)
        kept = tuple(segment for segment in self.segments if segment.base_offset <= offset)
        removed = self.segments[len(kept) :][::-1]
        position = self._boundary(kept[-1], offset) if kept else 0
        lost_from, lost_to = (0, 0) if offset <= self._lost[0] else self._lost
        try:
            state = LogState(reserved_offset=offset, lost_from=lost_from, lost_to=lost_to)
            self.reservation.save(state, sync=True)
            self._lost = (lost_from, lost_to)
            self._hide_from(offset, kept, position)
            self.snapshots.remove_above(offset)
            self.remove_segments(removed)
            if kept:
                self.settle(kept[-1])
        except OSError as error:
            self.fail(f"truncating to {offset} failed: {error}")
            self.check_writable()

    def save_snapshot(self, offset: int, data: bytes) -> None:
        """A snapshot is a recovery checkpoint, so what it stands for is synced before it."""
        if offset > self._synced_tail.end_offset:
            self.sync()
        for segment in self.segments[-1:]:
            segment.index.flush()  # recovery finds the place of the snapshot through it
        try:
            self.snapshots.save(offset, data)
        except OSError as error:
            raise storage_error(f"a snapshot of {self.log_id}", error) from error

    def _has_room(self, segment: Segment, plan: AppendPlan) -> bool:
        return segment.size + plan.size_bytes <= self.segment_bytes and not self._is_old(segment, plan)

    def _is_old(self, segment: Segment, plan: AppendPlan) -> bool:
        if not segment.size:
            return False
        first = segment.first_append_time_ms
        if first is None:
            first = segment.times()[0]
        return plan.append_time_ms - first >= self.roll_after_ms

    def _append_over_segments(
        self, segment: Segment | None, frames: Sequence[StampedFrame], plan: AppendPlan
    ) -> list[_Run]:
        """Writes what fits to the active segment, and the rest to as many new ones as it takes."""
        room, is_empty = 0, False
        if segment is not None and not self._is_old(segment, plan):
            room, is_empty = self.segment_bytes - segment.size, not segment.size
        runs: list[_Run] = []
        try:
            for number, run in enumerate(split_runs(frames, room, self.segment_bytes, is_empty=is_empty)):
                if number:
                    if segment is not None:
                        self.close_segment(segment)
                    segment = self.create_segment(run[0].header.base_offset)
                if segment is not None and run:
                    runs.append((segment, run))
                    write_frames(self.open_files, segment, run)
        except OSError as error:
            self._undo(runs, error)
        return runs

    def _commit(self, runs: list[_Run], plan: AppendPlan, *, synced: bool) -> None:
        before, segments = self.tail, self.segments
        self.remember(runs[0][1][0].header.base_offset, runs[0][0], runs[0][0].size)
        for segment, run in runs:
            segment.commit(run)
            if segment.index.is_full:
                segment.index.flush()
        active = runs[-1][0]
        if active is not before.segment:
            segments = (*segments, *[segment for segment, _ in runs if segment not in segments])
        tail = Tail(plan.end_offset, active, active.size, plan.append_time_ms, active.max_timestamp_ms, plan.epoch)
        self.publish(segments, tail, synced=synced)

    def _undo(self, runs: list[_Run], error: OSError) -> NoReturn:
        """Removes what a failed append wrote. Lack of room is told and the log goes on; anything else is final."""
        known = self.segments
        try:
            self.remove_segments([segment for segment, _ in runs if segment not in known][::-1])
            for segment, _ in runs:
                if segment in known:
                    self.settle(segment, sync=False)
        except OSError as second:
            self.fail(f"a write failed ({error}) and could not be undone ({second})")
        if not is_lack_of_room(error):
            self.fail(f"a write failed: {error}")
        self.check_writable()
        raise storage_error(self.log_id, error) from error

    def _drop(self, count: int) -> None:
        if not count:
            return
        dropped = self.segments[:count]
        for segment, following in zip(dropped, self.segments[1:], strict=False):
            with contextlib.suppress(OSError):  # then every offset counts
                self.removed.add(segment.holes(following.base_offset))
        try:
            self.snapshots.make_durable(self.segments[count].base_offset)
            self.publish(self.segments[count:], self.tail, synced=False)
            self.remove_segments(dropped)
        except OSError as error:
            raise storage_error(self.log_id, error) from error

    def _boundary(self, segment: Segment, offset: int) -> int:
        found, _ = segment.find(
            passed=lambda entry: entry.offset <= offset, wanted=lambda header: header.last_offset >= offset
        )
        if found is not None and found.header.base_offset < offset:
            raise InvalidRequest(problem=f"offset {offset} is inside a frame")
        return segment.size if found is None else found.position

    def _hide_from(self, offset: int, kept: tuple[Segment, ...], position: int) -> None:
        """Ends the log at an offset for readers, before its files are cut."""
        last = kept[-1].frame_before(position) if position else None
        if last is None:
            last = next((found for each in reversed(kept[:-1]) if each.size and (found := each.last_frame())), None)
        tail = self.tail._replace(
            end_offset=offset,
            segment=kept[-1] if kept else None,
            size=position,
            last_append_time_ms=last.header.append_time_ms if last else 0,
            last_epoch=last.header.leader_epoch if last else -1,
        )
        self.publish(kept, tail, synced=True)
        self.forget_positions()
        self.damage = [damage for damage in self.damage if damage.first_offset < offset]
        if kept:
            kept[-1].truncate(position)
