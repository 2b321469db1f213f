"""Priorities in segment files: what an index that is lost, old or damaged costs, and what is not read at all."""

from pathlib import Path

import pytest

from quiver.log.segment_log import SegmentLog
from quiver.model.priority import Priority
from quiver.system.files import Files
from unit.log.frames import frame_at
from unit.log.logs import abandon, append, close, open_log, segment_files

LOW = 1 << Priority.LOW
FRAMES, COUNT = 200, 10


class CountingFiles(Files):
    """Counts the bytes that are read from segment files."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.bytes_read += len(data)
        return data


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


def write(directory: Path, *low: int, segment_bytes: int = 16 * 1024) -> SegmentLog:
    """A log of 200 frames with ten messages each, normal but for the ones that are named."""
    log = open_log(directory, segment_bytes=segment_bytes)
    for n in range(FRAMES):
        priority = Priority.LOW if n in low else Priority.NORMAL
        frame = frame_at(
            COUNT * n, count=COUNT, body=bytes([n % 250 + 1]) * 500, time_ms=1_000 + n, priority=priority
        )
        append(log, frame, sync=False)
    return log


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


class TestWhatIsRead:
    def test_a_priority_that_is_not_there_reads_next_to_nothing(self, directory: Path) -> None:
        close(write(directory))
        files = CountingFiles()
        log = open_log(directory, files=files)
        before = files.bytes_read
        assert log.priorities.find_priority(0, LOW) is None
        assert files.bytes_read - before < log.view.size_bytes
        before = files.bytes_read
        assert log.priorities.find_priority(0, LOW) is None
        assert log.priorities.knows_of_none(0, LOW)
        assert files.bytes_read == before

    def test_a_far_frame_is_found_by_the_index(self, directory: Path) -> None:
        close(write(directory, 0, 190, segment_bytes=1 << 20))
        files = CountingFiles()
        log = open_log(directory, files=files)
        assert log.priorities.find_priority(10, LOW) == 1_900
        assert files.bytes_read < log.view.size_bytes // 2

    def test_the_frame_itself_is_known_without_a_search(self, directory: Path) -> None:
        log = write(directory)
        append(log, frame_at(2_000, priority=Priority.LOW, time_ms=5_000))
        assert log.priorities.has_priority_hot(2_000, LOW)
        assert not log.priorities.has_priority_hot(2_000, ~LOW)
        assert not log.priorities.has_priority_hot(0, ~LOW)


class TestIndexes:
    @pytest.mark.parametrize("is_clean", [True, False])
    def test_lost(self, directory: Path, is_clean: bool) -> None:
        (close if is_clean else abandon)(write(directory, 3, 150, 199))
        for path in directory.glob("*.index"):
            path.unlink()
        log = open_log(directory)
        assert [log.priorities.find_priority(offset, LOW) for offset in (0, 40, 1_510)] == [30, 1_500, 1_990]
        assert log.priorities.count_by_priority(5) == [0, 0, 1_965, 30, 0]
        append(log, frame_at(2_000, count=5, priority=Priority.LOW, time_ms=5_000))
        assert log.priorities.count_by_priority(0) == [0, 0, 1_970, 35, 0]

    def test_every_byte_damaged(self, tmp_path: Path) -> None:
        close(write(tmp_path / "log", 3, 20, segment_bytes=1 << 20))
        path = next((tmp_path / "log").glob("*.index"))
        content = path.read_bytes()
        for position in range(0, len(content), 13):
            path.write_bytes(content)
            flip(path, position)
            log = open_log(tmp_path / "log", segment_bytes=1 << 20)
            assert [log.priorities.find_priority(offset, LOW) for offset in (0, 40, 210)] == [30, 200, None]
            assert log.priorities.count_by_priority(100) == [0, 0, 1_890, 10, 0]
            abandon(log)

    def test_of_another_format(self, directory: Path) -> None:
        close(write(directory, 100))
        for path in directory.glob("*.index"):
            path.write_bytes(bytes(range(200)))
        log = open_log(directory)
        assert log.priorities.find_priority(0, LOW) == 1_000
        assert log.priorities.count_by_priority(0) == [0, 0, 1_990, 10, 0]


class TestCrashes:
    def test_a_kill_between_index_writes(self, directory: Path) -> None:
        """What waited for the index in memory is gone; the counts go on rightly all the same."""
        abandon(write(directory, 3, 198, segment_bytes=1 << 20))
        log = open_log(directory, segment_bytes=1 << 20)
        for n in range(200, 300):
            append(log, frame_at(COUNT * n, count=COUNT, body=bytes(500), time_ms=9_000), sync=False)
        assert log.priorities.find_priority(40, LOW) == 1_980
        assert log.priorities.find_priority(1_990, LOW) is None
        assert log.priorities.count_by_priority(0) == [0, 0, 2_980, 20, 0]

    def test_a_torn_tail(self, directory: Path) -> None:
        abandon(write(directory, 3, 199))
        path = segment_files(directory)[-1]
        path.write_bytes(path.read_bytes()[:-1])
        log = open_log(directory)
        assert log.priorities.find_priority(40, LOW) is None
        assert log.priorities.count_by_priority(0) == [0, 0, 1_980, 10, 0]

    @pytest.mark.parametrize("is_clean", [True, False])
    @pytest.mark.parametrize("at", [2, 88 + 100])
    def test_a_damaged_frame_is_passed_over(self, directory: Path, is_clean: bool, at: int) -> None:
        log = write(directory, 100, 110, segment_bytes=1 << 20)
        frame_size = log.view.size_bytes // FRAMES
        (close if is_clean else abandon)(log)
        flip(segment_files(directory)[0], 100 * frame_size + at)
        log = open_log(directory, segment_bytes=1 << 20)
        if at < 88:
            assert log.priorities.find_priority(0, LOW) == 1_100
        assert log.priorities.find_priority(1_010, LOW) == 1_100
        assert log.priorities.find_priority(1_110, LOW) is None
        append(log, frame_at(2_000, count=5, priority=Priority.LOW, time_ms=5_000))
        assert log.priorities.find_priority(1_110, LOW) == 2_000
