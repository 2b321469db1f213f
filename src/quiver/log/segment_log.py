"""A log of segment files. Blocking calls; one caller at a time changes a log, others may read meanwhile.

`quiver.storage.local.log` runs these calls on the loop or in threads. A log can be used without the rest of Quiver.
"""

import contextlib
import logging

from quiver.log.epoch_history import EpochHistory
from quiver.log.files.write_error import storage_error
from quiver.log.priority_search import PrioritySearch
from quiver.log.recovery.epoch_file import EpochFile
from quiver.log.recovery.reservation import Reservation
from quiver.log.recovery.reserved_file import LogState
from quiver.log.removed_front import RemovedFront
from quiver.log.retention import SegmentAge, count_to_drop, is_due_to_roll
from quiver.log.segment.damage import Damage
from quiver.log.segment.index import INDEX_INTERVAL_BYTES
from quiver.log.segment.segment import Segment
from quiver.log.segment_ages import SegmentAges
from quiver.log.segment_appender import SegmentAppender, SegmentLimits
from quiver.log.segment_files import SegmentFiles
from quiver.log.segment_view import SegmentView, out_of_range
from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import DiskFull, InvalidRequest, PartitionOffline

_logger = logging.getLogger(__name__)


class SegmentLog:
    """Made by `quiver.log.recovery.opening.open_segment_log`.

    Its parts: `view` is what readers see, `priorities` finds messages by priority, `appender` writes frames, `files`
    makes, syncs and removes segments; `snapshots`, `reservation` and the epochs have files of their own.
    """

    def __init__(
        self,
        view: SegmentView,
        files: SegmentFiles,
        snapshots: SnapshotFiles,
        reservation: Reservation,
        limits: SegmentLimits,
    ) -> None:
        self.log_id = view.log_id
        self.view = view
        self.files = files
        self.snapshots = snapshots
        self.reservation = reservation
        self.priorities = PrioritySearch(view)
        self.removed = RemovedFront()
        self._epochs = EpochFile(files.directory, files.files)
        self.appender = SegmentAppender(view, files, self._epochs, limits)
        self._ages = SegmentAges(files.files)
        self.was_compacted = False
        """When it was opened."""
        self._lost = (0, 0)
        """Frames between these offsets were synced and are gone."""

    @property
    def start_offset(self) -> int:
        return self.view.start_offset

    @property
    def end_offset(self) -> int:
        return self.view.tail.end_offset

    def epochs(self) -> EpochHistory:
        """Which leader epochs wrote the log. Reads files at its first use."""
        return self._epochs.history(self.view.segments, self.view.tail.frames_end)

    def save_epochs(self) -> None:
        """Before frames go that tell of them."""
        self._epochs.save(self.view.segments, self.view.tail.frames_end)

    def skip_to(self, offset: int) -> None:
        """Leaves a gap: the next frame is at an offset or above."""
        if offset > self.end_offset:
            self.view.tail = self.view.tail._replace(end_offset=offset)

    # the front

    def drop_front(self, offset: int) -> int:
        """Removes whole segments below an offset; returns the new start."""
        self._drop(sum(1 for following in self.view.segments[1:] if following.base_offset <= offset))
        return self.start_offset

    def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        """Rolls an old active segment; returns the offset below which retention removes everything."""
        active = self.view.tail.segment
        if active is not None and active.size:
            due = is_due_to_roll(
                size_bytes=active.size,
                first_append_time_ms=self._ages.first_time(active, now_ms),
                now_ms=now_ms,
                roll_after_ms=self.appender.limits.roll_after_ms,
                retention_bytes=retention_bytes,
            )
            if due:
                with contextlib.suppress(DiskFull, PartitionOffline):  # what is too old is still removed
                    self.appender.roll()
        segments = self.view.segments
        by_time = retention_ms is not None
        ages = [SegmentAge(each.size, self._ages.last_time(each, now_ms) if by_time else 0) for each in segments[:-1]]
        count = count_to_drop(
            ages,
            total_bytes=self.view.size_bytes,
            now_ms=now_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        self._ages.forget_below(self.start_offset)
        return segments[count].base_offset if count else self.start_offset

    def _drop(self, count: int) -> None:
        if not count:
            return
        segments = self.view.segments
        dropped = segments[:count]
        for segment, following in zip(dropped, segments[1:], strict=False):
            with contextlib.suppress(OSError):  # then every offset counts
                self.removed.add(segment.holes(following.base_offset))
        try:
            self.snapshots.make_durable(segments[count].base_offset)
            self.files.publish(segments[count:], self.view.tail, synced=False)
            self.files.remove_segments(dropped)
        except OSError as error:
            raise storage_error(self.log_id, error) from error

    # the end

    def truncate(self, offset: int) -> None:
        """Removes frames at and above an offset. The `reserved` file is changed first, so that recovery agrees."""
        self.files.check_writable()
        if offset >= self.end_offset:
            if self.start_offset == self.end_offset:
                self.view.tail = self.view.tail._replace(last_append_time_ms=0)
            return
        if offset < self.start_offset:
            raise out_of_range(self.log_id, offset, self.start_offset, self.end_offset)
        segments = self.view.segments
        kept = tuple(segment for segment in segments if segment.base_offset <= offset)
        removed = segments[len(kept) :][::-1]
        position = self._boundary(kept[-1], offset) if kept else 0
        lost_from, lost_to = (0, 0) if offset <= self._lost[0] else self._lost
        try:
            self._epochs.truncate(offset)
            state = LogState(reserved_offset=offset, lost_from=lost_from, lost_to=lost_to)
            self.reservation.save(state, sync=True)
            self._lost = (lost_from, lost_to)
            self._hide_from(offset, kept, position)
            self.snapshots.remove_above(offset)
            self.files.remove_segments(removed)
            if kept:
                self.files.cut_to_size(kept[-1])
        except OSError as error:
            self.files.fail(f"truncating to {offset} failed: {error}")
            self.files.check_writable()

    def _boundary(self, segment: Segment, offset: int) -> int:
        found, _ = segment.find(
            passed=lambda entry: entry.offset <= offset, wanted=lambda header: header.last_offset >= offset
        )
        if found is not None and found.header.base_offset < offset:
            raise InvalidRequest(problem=f"offset {offset} is inside a frame")
        return segment.size if found is None else found.position

    def _hide_from(self, offset: int, kept: tuple[Segment, ...], position: int) -> None:
        """Shows readers the shorter log before its files are cut."""
        view = self.view
        last = kept[-1].frame_before(position) if position else None
        if last is None:
            last = next((found for each in reversed(kept[:-1]) if each.size and (found := each.last_frame())), None)
        tail = view.tail._replace(
            end_offset=offset,
            segment=kept[-1] if kept else None,
            size=position,
            last_append_time_ms=last.header.append_time_ms if last else 0,
            last_epoch=last.header.leader_epoch if last else -1,
            frames_end=last.header.next_offset if last else min(offset, view.tail.frames_end),
        )
        self.files.publish_cut(kept, tail)
        view.forget_positions()
        view.damage = [damage for damage in view.damage if damage.first_offset < offset]
        if kept:
            kept[-1].truncate(position)

    def note_loss(self, lost_from: int, lost_to: int) -> None:
        """Remembers that synced frames are gone. Readers of these offsets get an error, also after a restart."""
        if self._lost[1]:
            lost_from, lost_to = min(lost_from, self._lost[0]), max(lost_to, self._lost[1])
        self._lost = (lost_from, lost_to)
        segment, position = self._first_from(lost_to)
        damage = Damage(
            where=str(segment.path),
            segment_base=segment.base_offset,
            position=position,
            end_position=position,
            first_offset=lost_from,
            next_offset=lost_to,
            problem="frames that were on disk are missing",
        )
        self.view.note_damage(damage)
        _logger.warning("%s: %s", self.log_id, damage.error())

    def _first_from(self, offset: int) -> tuple[Segment, int]:
        segments = self.view.segments
        for segment in segments:
            found, _ = segment.find(
                passed=lambda entry: entry.offset < offset, wanted=lambda header: header.base_offset >= offset
            )
            if found is not None:
                return segment, found.position
        return segments[-1], segments[-1].size

    # what is kept over restarts

    def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        """A snapshot is a recovery checkpoint, so everything that it covers is synced first."""
        if offset > self.files.synced_tail.end_offset:
            self.files.sync()
        for segment in self.view.segments[-1:]:
            segment.index.flush()  # recovery finds the place of the snapshot through it
        try:
            self.snapshots.save(offset, data)
            if sync or 0 < offset == self.start_offset:  # nothing else says what the log begins with
                self.snapshots.make_durable(offset)
        except OSError as error:
            raise storage_error(f"a snapshot of {self.log_id}", error) from error

    def state(self) -> LogState:
        """The synced part of the log, where recovery can begin."""
        tail, (lost_from, lost_to) = self.files.synced_tail, self._lost
        return LogState(
            segment_base=tail.segment.base_offset if tail.segment is not None else -1,
            segment_size=tail.size,
            end_offset=tail.end_offset,
            last_append_time_ms=tail.last_append_time_ms,
            max_timestamp_ms=tail.max_timestamp_ms,
            last_epoch=tail.last_epoch,
            lost_from=lost_from,
            lost_to=lost_to,
            frames_end=tail.frames_end,
        )

    def close(self, end_offset: int) -> None:
        """Syncs, records the exact end and closes the files. `end_offset` may be above what is in the files."""
        try:
            if self.files.failure is None:
                self.files.sync()
                for segment in self.view.segments[-1:]:
                    if segment.size > INDEX_INTERVAL_BYTES:  # a short one is read from its beginning
                        segment.index.flush()
                self.reservation.save(self.state()._replace(reserved_offset=end_offset, is_clean=True), sync=False)
        except PartitionOffline:
            pass  # logged when it failed
        except OSError as error:
            _logger.warning("%s: the state could not be saved on closing: %s", self.log_id, error)
        finally:
            self.files.forget()
