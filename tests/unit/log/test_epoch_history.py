"""Where leader epochs ended, as the history of a log tells it; `test_log_crash_points` has its kill points."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.log.epoch_history import ENTRIES_KEPT, EpochHistory, EpochStart
from quiver.log.recovery.epoch_file import EPOCHS, EpochFile
from quiver.system.files import Files
from unit.log.frames import frame_at
from unit.log.logs import abandon, append, close, end_of_epoch, open_log


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 4)), max_size=30),
    st.integers(0, 60),
    st.booleans(),
)
def test_it_tells_what_all_frames_would_tell(steps: list[tuple[int, int, int]], cut: int, is_cut: bool) -> None:
    """Frames come with epochs that rise, of any length and with holes between them; some are cut off at the end."""
    history, frames, epoch, end = EpochHistory(), [], 0, 0
    for rise, count, hole in steps:
        if rise or not frames:
            epoch += rise
            history = history.begun([EpochStart(epoch, frames[-1][1] if frames else 0)], start_offset=0)
        frames.append((epoch, end + hole + count))
        end += hole + count
    if is_cut:
        frames = [frame for frame in frames if frame[1] <= cut]
        history = history.truncated(frames[-1][1] if frames else 0)
    frames_end = frames[-1][1] if frames else 0
    for asked in range(-1, epoch + 2):
        below = [frame_end for frame_epoch, frame_end in frames if frame_epoch <= asked]
        assert history.end_offset_of(asked, start_offset=0, end_offset=frames_end) == (below[-1] if below else 0)


def test_epochs_that_ended_below_the_start_are_left_out() -> None:
    history = EpochHistory([EpochStart(1, 0), EpochStart(2, 10), EpochStart(3, 20)])
    history = history.begun([EpochStart(4, 30)], start_offset=20)
    assert [start.epoch for start in history.starts] == [3, 4]
    assert [history.end_offset_of(epoch, start_offset=20, end_offset=40) for epoch in range(5)] == [
        20,
        20,
        20,
        30,
        40,
    ]


def test_it_is_bounded_and_says_too_little_rather_than_too_much() -> None:
    history = EpochHistory()
    for epoch in range(ENTRIES_KEPT + 5):
        history = history.begun([EpochStart(epoch, epoch * 10)], start_offset=0)
    assert len(history.starts) == ENTRIES_KEPT
    assert history.end_offset_of(4, start_offset=0, end_offset=10**6) == 0, "not known any more"
    assert history.end_offset_of(5, start_offset=0, end_offset=10**6) == 60


def test_appends_write_no_file_and_frames_tell_their_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for offset, epoch in enumerate([2, 4, 4, 5]):
        append(log, frame_at(offset, epoch=epoch))
    assert [end_of_epoch(log, epoch) for epoch in (1, 2, 3, 4, 5)] == [0, 1, 1, 3, 4]
    append(log, frame_at(4, epoch=7))
    assert [end_of_epoch(log, epoch) for epoch in (4, 5, 6, 7)] == [3, 4, 4, 5]
    abandon(log)
    assert not (tmp_path / EPOCHS).exists()
    log = open_log(tmp_path)
    assert [end_of_epoch(log, epoch) for epoch in (1, 2, 3, 4, 5, 6, 7)] == [0, 1, 1, 3, 4, 4, 5]
    abandon(log)


def test_what_frames_in_closed_segments_tell_is_saved_before_they_go(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, frame_at(0, count=10, epoch=1))
    append(log, frame_at(10, count=10, epoch=2))
    log.appender.roll()
    append(log, frame_at(20, count=10, epoch=3))
    append(log, frame_at(30, count=10, epoch=4))
    log.save_epochs()
    saved = EpochFile(tmp_path, Files()).history((), 100).starts
    assert saved == (EpochStart(1, 0), EpochStart(2, 10), EpochStart(3, 20)), "the last one may lose its frames"
    before = (tmp_path / EPOCHS).stat().st_mtime_ns
    log.save_epochs()
    assert (tmp_path / EPOCHS).stat().st_mtime_ns == before, "nothing has changed"
    abandon(log)
    log = open_log(tmp_path)
    assert [end_of_epoch(log, epoch) for epoch in range(6)] == [0, 10, 20, 30, 40, 40]
    abandon(log)


def test_a_log_with_one_epoch_needs_no_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, frame_at(0, count=10, epoch=2))
    close(log)
    assert not (tmp_path / EPOCHS).exists()
    log = open_log(tmp_path)
    assert [end_of_epoch(log, epoch) for epoch in (1, 2, 3)] == [0, 10, 10]
    append(log, frame_at(10, epoch=3))
    assert [end_of_epoch(log, epoch) for epoch in (1, 2, 3)] == [0, 10, 11]
    close(log)


def test_the_file_is_cut_before_the_log(tmp_path: Path) -> None:
    """Once the log grows again, entries of what was cut would be believed."""
    log = open_log(tmp_path)
    append(log, frame_at(0, count=10, epoch=1))
    append(log, frame_at(10, count=10, epoch=2))
    log.appender.roll()
    append(log, frame_at(20, count=10, epoch=3))
    log.save_epochs()
    log.truncate(10)
    assert EpochFile(tmp_path, Files()).history((), 100).starts == (EpochStart(1, 0),)
    append(log, frame_at(10, count=30, epoch=5))
    assert [end_of_epoch(log, epoch) for epoch in range(7)] == [0, 10, 10, 10, 10, 40, 40]
    abandon(log)
    log = open_log(tmp_path)
    assert [end_of_epoch(log, epoch) for epoch in range(7)] == [0, 10, 10, 10, 10, 40, 40]
    abandon(log)


def test_an_append_with_a_new_epoch_is_a_single_write(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, frame_at(0, epoch=1), sync=False)
    assert log.appender.is_ready(log.appender.plan([frame_at(1, epoch=2)]))
    close(log)


def test_a_hole_belongs_to_no_epoch(tmp_path: Path) -> None:
    """A follower with frames in the hole must not keep them."""
    log = open_log(tmp_path)
    append(log, frame_at(0, count=10, epoch=1))
    log.skip_to(1_000)
    close(log)
    log = open_log(tmp_path)
    assert log.end_offset == 1_000
    assert end_of_epoch(log, 1) == 10
    append(log, frame_at(1_000, count=5, epoch=2))
    assert (end_of_epoch(log, 1), end_of_epoch(log, 2)) == (10, 1_005)
    close(log)


@pytest.mark.parametrize("damage", [None, b"", b"QVEPOC", bytes(60)])
def test_without_the_file_the_frames_tell_all(tmp_path: Path, damage: bytes | None) -> None:
    log = open_log(tmp_path)
    for epoch, offset in enumerate(range(0, 2_000, 10), start=1):
        append(log, frame_at(offset, count=10, body=bytes(700), epoch=epoch // 40 * 3))
    close(log)
    if damage is not None:
        (tmp_path / EPOCHS).write_bytes(damage)
    log = open_log(tmp_path)
    assert len(log.view.segments) > 3
    assert [end_of_epoch(log, epoch) for epoch in (-1, 0, 2, 3, 6, 12, 15, 99)] == [
        0,
        390,
        390,
        790,
        1_190,
        1_990,
        2_000,
        2_000,
    ]
    close(log)


def test_entries_whose_frames_are_lost_do_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, frame_at(0, count=10, epoch=1))
    log.appender.roll()
    append(log, frame_at(10, count=10, epoch=7))
    log.save_epochs()
    log.truncate(10)  # as a power cut may leave it
    close(log)
    log = open_log(tmp_path)
    assert end_of_epoch(log, 1) == end_of_epoch(log, 7) == 10
    append(log, frame_at(10, count=10, epoch=3))
    assert (end_of_epoch(log, 2), end_of_epoch(log, 3)) == (10, 20)
    close(log)
