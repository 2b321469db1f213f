"""The file of the local buffer: what was synced is found again, whatever a kill or a full disk leaves after it."""

import errno
from pathlib import Path

import pytest

from quiver.model.errors import InvalidSetting, UnsupportedVersion
from quiver.storage.postgres.buffering.buffer_file import NAME, BufferFile, BufferHeader
from quiver.system.files import Buffer, Files

HEADER = BufferHeader(1, b"id", "cluster/database/schema")
APPENDS = [(f"topics/1/{number}", [b"frame %d" % number, b"!" * number]) for number in range(4)]


def _opened(directory: Path) -> BufferFile:
    file = BufferFile(directory)
    file.open()
    return file


def _read(file: BufferFile) -> list[tuple[str, bytes]]:
    return [(append.log_id, bytes(append.frames)) for append in file.read(0)] if file.header else []


def _read_again(directory: Path) -> list[tuple[str, bytes]]:
    file = _opened(directory)
    found = _read(file)
    file.close()
    return found


def test_a_file_cut_off_anywhere_has_the_whole_records_before(tmp_path: Path) -> None:
    file = _opened(tmp_path / "whole")
    assert file.header is None
    file.create(HEADER)
    ends = []
    for append in APPENDS:
        file.append([append])
        ends.append(file.size_bytes)
    data = (tmp_path / "whole" / NAME).read_bytes()
    stored = [(log_id, b"".join(frames)) for log_id, frames in APPENDS]
    for size in range(0, len(data) + 1, 3):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / NAME).write_bytes(data[:size])
        again = _opened(folder)
        expected = stored[: sum(end <= size for end in ends)]
        assert _read(again) == expected, size
        if again.header is None:
            again.create(HEADER)
        again.append(APPENDS[:1])
        again.close()
        assert _read_again(folder) == [*expected, stored[0]]
    file.remove()
    assert not (tmp_path / "whole" / NAME).exists()


class _FullDisk(Files):
    room = 10_000

    def pwritev(self, fd: int, buffers: "list[Buffer]", position: int) -> int:  # type: ignore[override]
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        data = b"".join(buffers)[: self.room]
        self.room -= len(data)
        return super().pwritev(fd, [data], position)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    files = _FullDisk()
    file = BufferFile(tmp_path, files)
    file.open()
    file.create(HEADER)
    file.append(APPENDS)
    before = _read(file)
    files.room = 20
    with pytest.raises(OSError, match="No space left"):
        file.append(APPENDS)
    assert _read_again(tmp_path) == before == _read(file)
    files.room = 10_000
    file.append(APPENDS)
    assert _read_again(tmp_path) == before * 2
    file.close()


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    file = _opened(tmp_path)
    file.create(BufferHeader(2, b"id", "x"))
    with pytest.raises(UnsupportedVersion):
        _opened(tmp_path)
    file.create(HEADER)
    file.append([("topics/1/0", [bytes(500)])])
    file.close()
    data = bytearray((tmp_path / NAME).read_bytes())
    data[10] ^= 0xFF
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(InvalidSetting):
        _opened(tmp_path)
