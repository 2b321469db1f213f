"""The files of a log of segments: making, syncing, cutting and removing them, and what goes wrong with them."""

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from quiver.log.files.directories import sync_up
from quiver.log.files.open_files import OpenFiles
from quiver.log.priority_view import PriorityView
from quiver.log.recovery.reservation import Reservation
from quiver.log.recovery.reserved_file import LogState
from quiver.log.segment.damage import Damage
from quiver.log.segment.index import INDEX_INTERVAL_BYTES
from quiver.log.segment.segment import Segment
from quiver.log.segment_view import Tail
from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import PartitionOffline

_logger = logging.getLogger(__name__)


class SegmentFiles(PriorityView):
    """A log's files and the promise about them: `_synced_tail` says how much is surely on disk."""

    def __init__(
        self,
        log_id: str,
        directory: Path,
        root: Path,
        open_files: OpenFiles,
        *,
        snapshots: SnapshotFiles,
        reservation: Reservation,
    ) -> None:
        super().__init__(log_id, open_files)
        self.directory = directory
        self.snapshots = snapshots
        self.reservation = reservation
        self.failure: str | None = None
        self._root = root
        self._files = open_files.files
        self._synced_tail = self.tail
        self._sync_turn = Lock()
        self._lost = (0, 0)

    def publish(self, segments: tuple[Segment, ...], tail: Tail, *, synced: bool) -> None:
        """Shows readers a new state of the log. `synced`: everything up to the tail is on disk."""
        if segments is not self.segments:
            for segment in segments:
                segment.file.sync = self._sync_quietly
            self.segments = segments
        self.tail = tail
        if synced:
            self._synced_tail = tail

    def fail(self, problem: str) -> None:
        """Takes the log offline for writes, for good."""
        if self.failure is None:
            self.failure = problem
            _logger.error("%s is offline for writes: %s", self.log_id, problem)

    def check_writable(self) -> None:
        if self.failure is not None:
            raise PartitionOffline(partition=self.log_id, problem=self.failure)

    def sync(self) -> None:
        """Returns when everything appended so far is on disk."""
        tail = self.tail
        self.check_writable()
        if tail.segment is None or self._synced_tail.end_offset >= tail.end_offset:
            return
        self.sync_segment(tail.segment)
        if self._synced_tail.end_offset < tail.end_offset:
            self._synced_tail = tail

    def sync_segment(self, segment: Segment) -> None:
        """Syncs a file. A failure is final: the kernel may have dropped the pages, another try would prove nothing.

        One at a time, because the kernel tells a failure only once: whoever syncs next must know of it.
        """
        with self._sync_turn:
            self.check_writable()
            try:
                fd = self.open_files.pin(segment.file)
                try:
                    segment.file.dirty = False
                    self._files.fdatasync(fd)
                finally:
                    self.open_files.unpin(segment.file)
            except OSError as error:
                self.fail(f"a sync failed ({error.strerror}), what was written before it may be lost")
            self.check_writable()

    def _sync_quietly(self) -> None:
        """For a file that is about to be closed for lack of descriptors: only the active one has unsynced bytes."""
        segment = self.tail.segment
        if segment is not None and self.failure is None:
            try:
                self.sync_segment(segment)
            except PartitionOffline:
                return

    def create_segment(self, base_offset: int) -> Segment:
        """An empty segment whose name is durable."""
        segment = Segment(self.directory, base_offset, self.open_files, size=0, index_size=0)
        try:
            self.open_files.pin(segment.file, create=True)
            self.open_files.unpin(segment.file)
            sync_up(self._files, self.directory, self.directory if self.segments else self._root)
        except OSError:
            self._remove_stray(segment)
            raise
        return segment

    def _remove_stray(self, segment: Segment) -> None:
        """A segment that was not taken into use must not stay: it would hide frames of the one before it."""
        segment.forget()
        try:
            self._files.remove(segment.path)
        except OSError as error:
            self.fail(f"{segment.path} could not be removed: {error}")

    def close_segment(self, segment: Segment) -> None:
        """Nothing is appended to it any more. Only the last segment of a log may have unsynced bytes."""
        self.sync_segment(segment)
        segment.index.flush()

    def settle(self, segment: Segment, *, sync: bool = True) -> None:
        """Cuts a segment's file to its committed size."""
        fd = self.open_files.pin(segment.file)
        try:
            if self._files.size(fd) > segment.size:
                self._files.truncate(fd, segment.size)
            if sync:
                self._files.fdatasync(fd)
        finally:
            self.open_files.unpin(segment.file)

    def remove_segments(self, segments: Sequence[Segment]) -> None:
        """Removes files one by one, in an order that leaves no hole wherever it is interrupted."""
        for segment in segments:  # all of them, also when a removal fails: nobody else knows them any more
            segment.forget()
        for segment in segments:
            self._files.remove(segment.index.file.path)
            self._files.remove(segment.path)
        if segments:
            self._files.sync_directory(self.directory)

    def note_loss(self, lost_from: int, lost_to: int) -> None:
        """Remembers that synced frames are gone. Readers that come to their place are told, also after a restart."""
        if self._lost[1]:
            lost_from, lost_to = min(lost_from, self._lost[0]), max(lost_to, self._lost[1])
        self._lost = (lost_from, lost_to)
        segment, position = self._first_behind(lost_to)
        damage = Damage(
            where=str(segment.path),
            segment_base=segment.base_offset,
            position=position,
            end_position=position,
            first_offset=lost_from,
            next_offset=lost_to,
            problem="frames that were on disk are missing",
        )
        self.note_damage(damage)
        _logger.warning("%s: %s", self.log_id, damage.error())

    def _first_behind(self, offset: int) -> tuple[Segment, int]:
        for segment in self.segments:
            found, _ = segment.find(
                passed=lambda entry: entry.offset < offset, wanted=lambda header: header.base_offset >= offset
            )
            if found is not None:
                return segment, found.position
        return self.segments[-1], self.segments[-1].size

    def state(self) -> LogState:
        """The synced part of the log, as a place to begin recovery at."""
        tail, (lost_from, lost_to) = self._synced_tail, self._lost
        return LogState(
            segment_base=tail.segment.base_offset if tail.segment is not None else -1,
            segment_size=tail.size,
            end_offset=tail.end_offset,
            last_append_time_ms=tail.last_append_time_ms,
            max_timestamp_ms=tail.max_timestamp_ms,
            last_epoch=tail.last_epoch,
            lost_from=lost_from,
            lost_to=lost_to,
        )

    def close(self, end_offset: int) -> None:
        """Syncs, notes the exact end and closes the files. `end_offset` may be above what is in the files."""
        try:
            if self.failure is None:
                self.sync()
                for segment in self.segments[-1:]:
                    if segment.size > INDEX_INTERVAL_BYTES:  # a short one is read from its beginning
                        segment.index.flush()
                self.reservation.save(self.state()._replace(reserved_offset=end_offset, is_clean=True), sync=False)
        except PartitionOffline:
            pass  # logged when it failed
        except OSError as error:
            _logger.warning("%s: the state could not be saved on closing: %s", self.log_id, error)
        finally:
            self.forget_files()

    def discard(self) -> None:
        """Nothing of the log is needed any more: whoever syncs it from now on has nothing to do."""
        self._synced_tail = self.tail
        self.forget_files()

    def forget_files(self) -> None:
        for segment in self.segments:
            segment.forget()
            segment.file.sync = None
