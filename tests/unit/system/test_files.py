import os
from pathlib import Path

from quiver.system.files import Files


def test_writeback_that_was_started_changes_nothing_that_can_be_read(tmp_path: Path):
    files = Files()
    fd = files.open(tmp_path / "file", create=True)
    try:
        files.write_all(fd, [b"a" * 10_000], 0)
        files.start_writeback(fd, 0, 10_000)
        files.start_writeback(fd, 0, 100_000)  # also beyond the end
        assert files.size(fd) == 10_000
        assert files.pread(fd, 10_000, 0) == b"a" * 10_000
    finally:
        files.close(fd)


def test_writeback_of_what_cannot_be_written_back_is_no_error():
    files = Files()
    read_end, write_end = os.pipe()
    try:
        files.start_writeback(write_end, 0, 100)
    finally:
        os.close(read_end)
        os.close(write_end)
