"""A sync in one thread while another closes or cuts the log."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from quiver.log.segment_log import SegmentLog
from quiver.system.files import Buffer, Files
from unit.log.frames import frame_at
from unit.log.logs import append, close, open_log


class DuringSync(Files):
    """Does something while a file is synced, or before it is written to, once."""

    def __init__(self) -> None:
        self.then: Callable[[], None] | None = None
        self.before_write: Callable[[], None] | None = None
        self.syncs = 0

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.before_write is not None:
            before, self.before_write = self.before_write, None
            before()
        return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        super().fdatasync(fd)
        if self.then is not None:
            then, self.then = self.then, None
            then()


@pytest.fixture
def files() -> DuringSync:
    return DuringSync()


@pytest.fixture
def log(tmp_path: Path, files: DuringSync) -> SegmentLog:
    log = open_log(tmp_path, files=files)
    for offset in range(4):
        append(log, frame_at(offset))
    return log


def test_a_file_that_was_closed_meanwhile_needs_no_sync(log: SegmentLog) -> None:
    segment = log.view.segments[-1]
    close(log)
    log.files.sync_segment(segment)
    assert log.files.failure is None


def test_a_sync_that_began_before_a_write_does_not_count_for_it(log: SegmentLog, files: DuringSync) -> None:
    """Otherwise the file could be closed, and would count as synced."""
    segment = log.view.segments[-1]
    files.before_write = lambda: log.files.sync_segment(segment)
    append(log, frame_at(4), sync=False)
    assert segment.file.dirty


def test_a_sync_from_before_a_cut_says_nothing_about_what_follows_it(log: SegmentLog, files: DuringSync) -> None:
    def cut_and_go_on() -> None:
        # The sync that goes on has the lock; a cut syncs the segment's file by itself.
        log._hide_from(2, log.view.segments, log._boundary(log.view.segments[-1], 2))
        append(log, frame_at(2), sync=False)

    files.then = cut_and_go_on
    log.files.sync_written()
    assert log.files.synced_tail.end_offset == 2
    before = files.syncs
    log.files.sync()
    assert files.syncs == before + 1, "the frame that was appended after the cut is synced"
    close(log)
