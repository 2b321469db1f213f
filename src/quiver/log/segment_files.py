"""The files of a log of segments: creating, syncing, cutting and removing them, and their failures."""

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from quiver.log.files.directories import Directories
from quiver.log.segment.segment import Segment
from quiver.log.segment_view import SegmentView, Tail
from quiver.model.errors import PartitionOffline

_logger = logging.getLogger(__name__)


class SegmentFiles:
    """A log's files. `synced_tail` says how much is certainly on disk."""

    def __init__(self, view: SegmentView, directory: Path, directories: Directories) -> None:
        self.directory = directory
        self.open_files = view.open_files
        self.files = view.open_files.files
        self.failure: str | None = None
        """Why the log is offline for writes, or None."""
        self.synced_tail = view.tail
        self._view = view
        self._directories = directories
        self._sync_turn = Lock()
        self._tail_lock = Lock()
        """For `synced_tail` and `_cuts`; held for a few instructions."""
        self._cuts = 0
        """How often frames were cut off: a tail from before says nothing about those that follow."""

    def publish(self, segments: tuple[Segment, ...], tail: Tail, *, synced: bool) -> None:
        """Shows readers a new state of the log. `synced`: everything up to the tail is on disk."""
        view = self._view
        if segments is not view.segments:
            for segment in segments:
                segment.file.sync = self._sync_quietly
            view.segments = segments
        view.tail = tail
        if synced:
            with self._tail_lock:
                self.synced_tail = tail

    def publish_cut(self, segments: tuple[Segment, ...], tail: Tail) -> None:
        """As `publish`, with an end that is lower than before. All that was appended is synced."""
        with self._tail_lock:
            self._cuts += 1
        self.publish(segments, tail, synced=True)

    def fail(self, problem: str) -> None:
        """Takes the log offline for writes, for good."""
        if self.failure is None:
            self.failure = problem
            self.open_files.troubled.add(self._view.log_id)
            _logger.error("%s is offline for writes: %s", self._view.log_id, problem)

    def check_writable(self) -> None:
        if self.failure is not None:
            raise PartitionOffline(partition=self._view.log_id, problem=self.failure)

    def sync(self) -> None:
        """Returns when everything appended so far is on disk."""
        if self.is_synced:
            self.check_writable()
        else:
            self.sync_written()

    @property
    def is_synced(self) -> bool:
        """Everything appended so far is on disk."""
        return self.synced_tail.end_offset >= self._view.tail.end_offset

    def sync_written(self) -> None:
        """Like `sync`; it also syncs what was written and is not published yet."""
        cuts, tail = self._cuts, self._view.tail
        self.check_writable()
        if tail.segment is None:
            return
        self.sync_segment(tail.segment)
        with self._tail_lock:
            if self._cuts == cuts and self.synced_tail.end_offset < tail.end_offset:
                self.synced_tail = tail

    def sync_segment(self, segment: Segment) -> None:
        """Syncs a file. A failure is final: the kernel may have dropped the pages, so a second try would prove
        nothing.

        One at a time, because the kernel reports a failure only once: whoever syncs next must know of it. A file that
        is closed needs no sync, and no descriptor: it was synced before, or is removed.
        """
        with self._sync_turn:
            self.check_writable()
            fd = self.open_files.pin_if_open(segment.file)
            if fd is None:
                return
            try:
                segment.file.dirty = False
                self.open_files.sync_times.fdatasync(self.files, fd)
            except OSError as error:
                self.fail(f"a sync failed ({error.strerror}); what was written before it may be lost")
            finally:
                self.open_files.unpin(segment.file)
            self.check_writable()

    def _sync_quietly(self) -> None:
        """Called before a file is closed for lack of descriptors: only the active one has unsynced bytes."""
        segment = self._view.tail.segment
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
            self._directories.sync(self.directory)
        except OSError:
            self._remove_stray(segment)
            raise
        return segment

    def _remove_stray(self, segment: Segment) -> None:
        """Removes a segment that was not taken into use: it would hide frames of the one before it."""
        segment.forget()
        try:
            self.files.remove(segment.path)
        except OSError as error:
            self.fail(f"{segment.path} could not be removed: {error}")

    def close_segment(self, segment: Segment) -> None:
        """Closes a segment for appends. Only the last segment of a log may have unsynced bytes."""
        self.sync_segment(segment)
        segment.index.flush()

    def cut_to_size(self, segment: Segment, *, sync: bool = True) -> None:
        """Cuts a segment's file to its committed size."""
        fd = self.open_files.pin(segment.file)
        try:
            if self.files.size(fd) > segment.size:
                self.files.truncate(fd, segment.size)
            if sync:
                self.files.fdatasync(fd)
        finally:
            self.open_files.unpin(segment.file)

    def remove_segments(self, segments: Sequence[Segment]) -> None:
        """Removes files one by one, in an order that leaves no hole wherever it is interrupted."""
        for segment in segments:  # all of them, even if a removal fails: nobody else knows them any more
            segment.forget()
        for segment in segments:
            self.files.remove(segment.index.file.path)
            self.files.remove(segment.path)
        if segments:
            self.files.sync_directory(self.directory)

    def discard(self) -> None:
        """Nothing of the log is needed any more: later syncs have nothing to do."""
        self.synced_tail = self._view.tail
        self.forget()

    def forget(self) -> None:
        """Closes all files, without a sync."""
        for segment in self._view.segments:
            segment.forget()
            segment.file.sync = None
