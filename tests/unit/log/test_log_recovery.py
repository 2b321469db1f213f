"""What a log does about files that an unclean stop, a torn write or a bad disk left behind."""

import logging
from pathlib import Path

import pytest

from quiver.log.files.directories import Directories
from quiver.log.recovery.reserved_file import LogState, ReservedFile
from quiver.log.recovery.scan import UNKNOWN_OFFSETS
from quiver.model.errors import CorruptData
from quiver.records.header import StampedFrame
from quiver.system.files import Files
from unit.log.frames import frame_at, frame_bytes
from unit.log.logs import abandon, append, close, end_of_epoch, open_log, read_all, segment_files


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


def write_frames(directory: Path, count: int, *, size: int = 500, clean: bool = False) -> list[StampedFrame]:
    """A log of `count` frames with ten messages each."""
    log = open_log(directory)
    frames = [frame_at(10 * n, count=10, body=bytes([n % 250 + 1]) * size, time_ms=1_000 + n) for n in range(count)]
    append(log, *frames)
    if clean:
        close(log)
    else:
        abandon(log)
    return frames


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def quarantined(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((directory / "quarantine").glob("*"))]


class TestTornTails:
    def test_cut_at_every_byte_of_the_last_frame(self, tmp_path: Path) -> None:
        frames = write_frames(tmp_path / "whole", 3, size=100)
        content = segment_files(tmp_path / "whole")[0].read_bytes()
        last = frames[2].header.frame_bytes
        for missing in range(1, last + 1):
            directory = tmp_path / str(missing)
            directory.mkdir()
            (directory / f"{0:020d}.log").write_bytes(content[:-missing])
            log = open_log(directory)
            assert read_all(log) == [frame_bytes(frame) for frame in frames[:2]]
            assert not log.view.damage
            if missing < last:
                assert quarantined(directory) == [frame_bytes(frames[2])[:-missing]]
            else:
                assert log.end_offset == 20
            if missing <= last - 88:
                assert log.end_offset == 30, "the offsets of a frame whose header is good are not used again"
            append(log, frame_at(log.end_offset, time_ms=2_000))
            abandon(log)
            assert len(read_all(open_log(directory))) == 3

    @pytest.mark.parametrize("size", [1, 7, 88, 4_096, 100_000])
    def test_zeros_behind_the_end_are_cut_without_a_copy(self, directory: Path, size: int) -> None:
        frames = write_frames(directory, 3)
        with segment_files(directory)[0].open("ab") as file:
            file.write(bytes(size))
        log = open_log(directory)
        assert read_all(log) == [frame_bytes(frame) for frame in frames]
        assert log.end_offset == 30
        assert quarantined(directory) == []
        assert segment_files(directory)[0].stat().st_size == log.view.size_bytes

    @pytest.mark.parametrize("junk", [b"x", b"QV\x01" + bytes(range(200)), b"\0" * 100 + b"y"])
    def test_garbage_behind_the_end_is_kept_aside(self, directory: Path, junk: bytes) -> None:
        frames = write_frames(directory, 3)
        with segment_files(directory)[0].open("ab") as file:
            file.write(junk)
        log = open_log(directory)
        assert read_all(log) == [frame_bytes(frame) for frame in frames]
        assert quarantined(directory) == [junk]
        assert log.end_offset == 30 + UNKNOWN_OFFSETS

    def test_the_end_stays_above_cut_offsets_after_another_crash(self, directory: Path) -> None:
        write_frames(directory, 3)
        path = segment_files(directory)[0]
        path.write_bytes(path.read_bytes()[:-8])
        abandon(open_log(directory))
        assert open_log(directory).end_offset == 30

    def test_pages_that_never_reached_the_disk(self, directory: Path) -> None:
        """A frame with a hole of zeros in front of a good one was torn by a power cut: both were not synced."""
        frames = write_frames(directory, 4, size=6_000)[:2]
        path = segment_files(directory)[-1]
        content = bytearray(path.read_bytes())
        base = int(path.stem)
        assert base == 20
        content[:4_096] = bytes(4_096)
        path.write_bytes(content)
        log = open_log(directory)
        assert read_all(log) == [frame_bytes(frame) for frame in frames]
        assert log.end_offset == 40
        assert not log.view.damage
        assert len(quarantined(directory)) == 1

    def test_a_frame_inside_a_message_is_not_taken_for_one(self, directory: Path) -> None:
        log = open_log(directory)
        inner = frame_bytes(frame_at(500, body=b"forged", epoch=9, time_ms=9_000))
        append(log, frame_at(0), frame_at(1, body=inner + b"behind it"))
        abandon(log)
        path = segment_files(directory)[0]
        path.write_bytes(path.read_bytes()[:-8])
        log = open_log(directory)
        assert log.end_offset == 2
        assert len(read_all(log)) == 1

    def test_recovery_begins_at_the_newest_snapshot(self, directory: Path) -> None:
        log = open_log(directory)
        frames = [frame_at(n, body=b"x" * 400, time_ms=1_000 + n) for n in range(30)]
        append(log, *frames)
        log.save_snapshot(25, b"state")
        abandon(log)
        flip(segment_files(directory)[0], 488 * 3 + 100)
        log = open_log(directory)
        assert not log.view.damage, "what a snapshot stands for is not checked again"
        assert log.end_offset == 30
        for snapshot in directory.glob("*.snapshot"):
            snapshot.unlink()
        abandon(log)
        log = open_log(directory)
        assert [(damage.first_offset, damage.next_offset) for damage in log.view.damage] == [(3, 4)]

    def test_a_log_goes_on_above_its_snapshots(self, directory: Path) -> None:
        log = open_log(directory)
        append(log, frame_at(0, count=100))
        log.save_snapshot(100, b"state")
        abandon(log)
        segment_files(directory)[0].write_bytes(b"")
        log = open_log(directory)
        assert log.end_offset == 100
        assert log.snapshots.newest(log.end_offset) == (100, b"state")

    def test_a_tail_that_cannot_be_copied_is_not_cut(self, directory: Path) -> None:
        frames = write_frames(directory, 3)
        path = segment_files(directory)[0]
        with path.open("ab") as file:
            file.write(b"junk")
        size = path.stat().st_size
        (directory / "quarantine").write_text("in the way")
        log = open_log(directory)
        assert path.stat().st_size == size
        assert log.files.failure is not None
        assert read_all(log) == [frame_bytes(frame) for frame in frames]


class TestCorruption:
    def test_every_byte_of_a_frame_in_the_middle(self, tmp_path: Path) -> None:
        frames = write_frames(tmp_path / "whole", 4, size=100)
        content = segment_files(tmp_path / "whole")[0].read_bytes()
        length = frames[0].header.frame_bytes
        good = [frame_bytes(frame) for frame in frames]
        for position in range(length, 2 * length):
            directory = tmp_path / str(position)
            directory.mkdir()
            damaged = bytearray(content)
            damaged[position] ^= 0x10
            path = directory / f"{0:020d}.log"
            path.write_bytes(damaged)
            log = open_log(directory)
            assert log.end_offset == 40
            assert path.read_bytes() == damaged, "nothing is deleted"
            assert [(each.first_offset, each.next_offset) for each in log.view.damage] == [(10, 20)]
            extent = log.view.read(0, max_bytes=10**6)
            assert extent is not None
            assert extent.length == length
            log.files.open_files.unpin(extent.file)
            for offset in (10, 15, 19):
                with pytest.raises(CorruptData, match="offset 20"):
                    log.view.read(offset, max_bytes=10**6)
            assert read_all(log, 20) == good[2:]
            abandon(log)

    def test_damage_is_reported(self, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
        write_frames(directory, 4)
        flip(segment_files(directory)[0], 700)
        with caplog.at_level(logging.WARNING):
            open_log(directory)
        assert "damaged data" in caplog.text
        assert "offset 20" in caplog.text

    def test_a_damaged_header_is_met_by_a_reader(self, directory: Path) -> None:
        """In segments that recovery does not look at."""
        frames = write_frames(directory, 100, clean=True)
        path = segment_files(directory)[1]
        base = int(path.stem)
        flip(path, 592 * 3 + 40)
        log = open_log(directory)
        with pytest.raises(CorruptData, match=f"offset {base + 40}"):
            log.view.read(base + 35, max_bytes=10**6)
        assert [(each.first_offset, each.next_offset) for each in log.view.damage] == [(base + 30, base + 40)]
        behind = base // 10 + 4
        assert read_all(log, base + 40) == [frame_bytes(frame) for frame in frames[behind:]]
        before = read_all_before(log, base + 30)
        assert before == [frame_bytes(frame) for frame in frames[: base // 10 + 3]]

    def test_the_last_frame_of_a_closed_segment(self, directory: Path) -> None:
        write_frames(directory, 100, clean=True)
        first, second = segment_files(directory)[:2]
        last_frame = first.stat().st_size - 592
        flip(first, last_frame + 3)
        log = open_log(directory)
        next_base = int(second.stem)
        with pytest.raises(CorruptData, match=f"offset {next_base}"):
            log.view.read(next_base - 1, max_bytes=10**6)
        assert read_all(log, next_base)

    def test_times_and_epochs_are_found_around_damage(self, directory: Path) -> None:
        write_frames(directory, 100, clean=True)
        flip(segment_files(directory)[1], 40)
        log = open_log(directory)
        assert log.view.offset_for_time(1_090) == 900
        assert end_of_epoch(log, 1) == 1_000


class TestLostData:
    """Bytes that were on disk when the log was closed, and are not there any more, are no torn tail."""

    @pytest.mark.parametrize("harm", ["shorter", "empty", "missing"])
    def test_lost_frames_are_damage_also_after_more_restarts(self, directory: Path, harm: str) -> None:
        frames = write_frames(directory, 10, clean=True)
        (path,) = segment_files(directory)
        if harm == "missing":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[: 592 * 4 + 100] if harm == "shorter" else b"")
        kept = 4 if harm == "shorter" else 0
        for restart in range(3):
            log = open_log(directory)
            assert (log.start_offset, log.end_offset) == (0, 100 + restart)
            assert [(each.first_offset, each.next_offset) for each in log.view.damage] == [(kept * 10, 100)]
            with pytest.raises(CorruptData, match="offset 100"):
                log.view.read(99, max_bytes=10**6)
            with pytest.raises(CorruptData, match="offset 100"):
                read_all(log, 0)
            assert read_all_before(log, kept * 10) == [frame_bytes(frame) for frame in frames[:kept]]
            assert len(read_all(log, 100)) == restart
            append(log, frame_at(100 + restart, time_ms=9_000))
            close(log)

    def test_truncating_below_the_loss_ends_it(self, directory: Path) -> None:
        write_frames(directory, 10, clean=True)
        segment_files(directory)[0].write_bytes(b"")
        log = open_log(directory)
        log.truncate(0)
        append(log, frame_at(0))
        close(log)
        log = open_log(directory)
        assert not log.view.damage
        assert len(read_all(log)) == 1


def read_all_before(log, end: int) -> list[bytes]:  # type: ignore[no-untyped-def]
    frames: list[bytes] = []
    offset = log.start_offset
    while (extent := log.view.read(offset, max_bytes=592, end_offset=end)) is not None:
        data = log.files.open_files.files.pread(extent.fd, extent.length, extent.position)
        log.files.open_files.unpin(extent.file)
        frames.append(data)
        offset += 10
    return frames


class TestIndexes:
    @pytest.mark.parametrize("harm", ["missing", "empty", "zeros", "short", "flipped", "foreign"])
    def test_a_bad_index_is_built_again(self, directory: Path, harm: str) -> None:
        frames = write_frames(directory, 100, clean=True)
        for path in directory.glob("*.index"):
            content = path.read_bytes()
            if harm == "missing":
                path.unlink()
            elif harm == "flipped":
                path.write_bytes(bytes(byte ^ 4 for byte in content))
            elif harm == "foreign":
                path.write_bytes(content[40:] + content[:40])
            else:
                path.write_bytes({"empty": b"", "zeros": bytes(len(content)), "short": content[:45]}[harm])
        log = open_log(directory)
        for frame in frames:
            assert read_all(log, frame.header.base_offset + 3)[0] == frame_bytes(frame)
        assert log.view.offset_for_time(1_050) == 500
        assert not log.view.damage

    def test_an_index_is_complete_after_a_kill(self, directory: Path) -> None:
        log = open_log(directory, segment_bytes=10**7)
        for n in range(200):
            append(log, frame_at(n, body=bytes(2_000), time_ms=n))
        abandon(log)
        log = open_log(directory, segment_bytes=10**7)
        entries = log.view.segments[0].index.entries()
        assert [entry.position // 4096 for entry in entries[:3]] == [0, 1, 2]
        assert entries[-1].position > log.view.size_bytes - 8_000


class TestReservedFile:
    def test_a_torn_record_leaves_the_other(self, tmp_path: Path) -> None:
        path = tmp_path / "reserved"
        file = ReservedFile(path, Files(), Directories(tmp_path, Files()))
        for offset in (5, 10, 15):
            file.save(LogState(reserved_offset=offset), sync=True)
        assert ReservedFile(path, Files(), Directories(tmp_path, Files())).load() == LogState(reserved_offset=15)
        flip(path, 512 + 20)
        assert ReservedFile(path, Files(), Directories(tmp_path, Files())).load() == LogState(reserved_offset=10)
        flip(path, 20)
        assert ReservedFile(path, Files(), Directories(tmp_path, Files())).load() is None

    def test_a_lost_file_costs_a_scan(self, directory: Path) -> None:
        frames = write_frames(directory, 10, clean=True)
        (directory / "reserved").unlink()
        log = open_log(directory)
        assert log.end_offset == 100
        assert read_all(log) == [frame_bytes(frame) for frame in frames]

    def test_a_clean_stop_needs_no_reading(self, directory: Path) -> None:
        write_frames(directory, 100, clean=True)

        class BlindFiles(Files):
            def pread(self, fd: int, size: int, position: int) -> bytes:
                raise AssertionError("a log was read")

        assert open_log(directory, files=BlindFiles()).end_offset == 1_000

    def test_an_unclean_stop_reads_behind_the_last_clean_one(self, directory: Path) -> None:
        write_frames(directory, 10, clean=True)
        log = open_log(directory)
        append(log, frame_at(100, body=b"late", time_ms=5_000))
        abandon(log)
        flip(segment_files(directory)[0], 700)
        log = open_log(directory)
        assert log.end_offset == 101
        assert not log.view.damage


class TestSnapshots:
    def test_a_bad_snapshot_is_passed_over(self, directory: Path) -> None:
        log = open_log(directory)
        append(log, frame_at(0, count=100))
        for offset in (10, 20, 30):
            log.save_snapshot(offset, b"at %d" % offset)
        newest = sorted(directory.glob("*.snapshot"))[-1]
        for position in range(len(newest.read_bytes())):
            flip(newest, position)
            assert log.snapshots.newest() == (20, b"at 20")
            flip(newest, position)
        newest.write_bytes(b"")
        assert log.snapshots.newest() == (20, b"at 20")

    def test_the_last_three_are_kept(self, directory: Path) -> None:
        log = open_log(directory)
        append(log, frame_at(0, count=100))
        for offset in range(10, 60, 10):
            log.save_snapshot(offset, b"")
        assert [int(path.stem) for path in sorted(directory.glob("*.snapshot"))] == [30, 40, 50]
        close(log)
        assert open_log(directory).snapshots.offsets == [30, 40, 50]

    def test_a_durable_one_is_kept_while_frames_are_dropped(self, directory: Path) -> None:
        """The newer ones are not synced: a power cut may take all three."""
        log = open_log(directory)
        append(log, *[frame_at(10 * n, count=10, body=bytes(5_000)) for n in range(20)])
        log.save_snapshot(100, b"synced before the drop")
        assert log.drop_front(100) > 0
        for offset in range(110, 160, 10):
            log.save_snapshot(offset, b"")
        assert log.snapshots.offsets == [100, 130, 140, 150]
        log.drop_front(150)
        log.save_snapshot(160, b"")
        assert log.snapshots.offsets == [140, 150, 160]
