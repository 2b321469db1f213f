"""The bounded set of open files."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from quiver.log.files.open_files import OpenFile, OpenFiles
from quiver.system.files import Files


class CountingFiles(Files):
    def __init__(self) -> None:
        self.is_open: set[int] = set()

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = super().open(path, create=create)
        self.is_open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.is_open.remove(fd)
        super().close(fd)


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


def some_files(tmp_path: Path, count: int) -> list[OpenFile]:
    return [OpenFile(tmp_path / str(number)) for number in range(count)]


def touch(open_files: OpenFiles, *used: OpenFile) -> None:
    for file in used:
        open_files.pin(file, create=True)
        open_files.unpin(file)


def test_the_least_recently_used_is_closed(tmp_path: Path, files: CountingFiles) -> None:
    open_files = OpenFiles(files, 2)
    a, b, c = some_files(tmp_path, 3)
    touch(open_files, a, b, a, c)
    assert [file.fd >= 0 for file in (a, b, c)] == [True, False, True]
    assert len(files.is_open) == len(open_files) == 2


def test_a_pinned_file_stays_open(tmp_path: Path, files: CountingFiles) -> None:
    open_files = OpenFiles(files, 1)
    a, b = some_files(tmp_path, 2)
    fd = open_files.pin(a, create=True)
    touch(open_files, b)
    os.pwrite(fd, b"still there", 0)
    open_files.unpin(a)
    touch(open_files, b)
    assert len(files.is_open) <= 2


def test_a_dirty_file_is_synced_by_its_owner_before_it_is_closed(tmp_path: Path, files: CountingFiles) -> None:
    open_files = OpenFiles(files, 1)
    a, b = some_files(tmp_path, 2)
    events: list[str] = []

    def sync() -> None:
        assert a.fd in files.is_open
        events.append("synced")
        a.dirty = False

    a.sync, a.dirty = sync, True
    touch(open_files, a, b)
    assert events == ["synced"]
    assert a.fd < 0


def test_a_forgotten_file_is_closed_when_its_last_user_is_done(tmp_path: Path, files: CountingFiles) -> None:
    open_files = OpenFiles(files, 5)
    (a,) = some_files(tmp_path, 1)
    fd = open_files.pin(a, create=True)
    open_files.forget(a)
    assert fd in files.is_open
    open_files.unpin(a)
    assert not files.is_open
    with pytest.raises(FileNotFoundError):
        open_files.pin(a)


def test_a_file_that_cannot_be_opened_takes_no_place(tmp_path: Path, files: CountingFiles) -> None:
    open_files = OpenFiles(files, 5)
    (a,) = some_files(tmp_path, 1)
    with pytest.raises(FileNotFoundError):
        open_files.pin(a)
    assert len(open_files) == a.pins == 0


class SlowFiles(Files):
    """Making `slow` takes until `go` is set."""

    def __init__(self) -> None:
        self.begun, self.go = Event(), Event()
        self.opens = 0

    def open(self, path: Path, *, create: bool = False) -> int:
        if path.name == "slow":
            self.opens += 1
            self.begun.set()
            assert self.go.wait(30)
        return super().open(path, create=create)


def test_nobody_waits_while_another_file_is_made(tmp_path: Path) -> None:
    files = SlowFiles()
    open_files, slow, other = OpenFiles(files), OpenFile(tmp_path / "slow"), OpenFile(tmp_path / "other")
    with ThreadPoolExecutor() as threads:
        making = [threads.submit(open_files.pin, slow, create=True) for _ in range(3)]
        assert files.begun.wait(30)
        touch(open_files, other)
        assert open_files.pin_if_open(slow) is None
        forgetting = threads.submit(open_files.forget, slow)
        files.go.set()
        fds = [each.result() for each in making if not isinstance(each.exception(), FileNotFoundError)]
        forgetting.result()
    assert files.opens == 1, "it is opened once, and not again after it was forgotten"
    assert len(set(fds)) == 1
    for _ in fds:
        open_files.unpin(slow)
    assert slow.fd < 0
