"""Logs that a killed process left: when they are synced one by one, and when all at once."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from quiver.log.files.found_logs import FoundLogs
from quiver.records.header import StampedFrame
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.port import LogOptions
from quiver.system.files import Files
from unit.log.frames import frame_at

FEW = 3


class CountingFiles(Files):
    """Whether the file system can be synced as a whole, or fails; and how often which sync was asked for."""

    def __init__(self, *, can: bool = True, fails: bool = False) -> None:
        self.can, self.fails = can, fails
        self.syncs: list[str] = []

    def fdatasync(self, fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(".log") and "/logs/" in path:
            self.syncs.append("log")
        super().fdatasync(fd)

    def sync_file_system(self, path: Path) -> bool:
        self.syncs.append("file system")
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.can and super().sync_file_system(path)


def test_a_file_system_is_synced_when_there_are_many_logs(tmp_path: Path) -> None:
    files = CountingFiles()
    found = FoundLogs(tmp_path, files, FEW)
    assert [found.is_synced(f"topics/1/{n}") for n in range(5)] == [False, False, False, True, True]
    assert files.syncs == ["file system"]


def test_a_log_that_was_opened_is_not_known_to_be_synced(tmp_path: Path) -> None:
    found = FoundLogs(tmp_path, CountingFiles(), FEW)
    found.note_synced(["topics/1/0", "topics/1/1"])
    assert found.is_synced("topics/1/0")
    found.note_opened("topics/1/0")
    assert not found.is_synced("topics/1/0")
    assert found.sync_all()
    assert not found.is_synced("topics/1/0")
    assert found.is_synced("topics/1/1")


@pytest.mark.parametrize("files", [CountingFiles(can=False), CountingFiles(fails=True)], ids=["cannot", "fails"])
def test_logs_are_synced_one_by_one_where_the_file_system_cannot_be(tmp_path: Path, files: CountingFiles) -> None:
    found = FoundLogs(tmp_path, files, FEW)
    assert [found.is_synced(f"topics/1/{n}") for n in range(5)] == 5 * [False]
    assert files.syncs == ["file system"], "an error is told once"


def frame(offset: int) -> list[StampedFrame]:
    return [frame_at(offset, body=b"-" * 40)]


@pytest.mark.parametrize(
    ("files", "syncs"),
    [
        (CountingFiles(), ["file system"]),
        (CountingFiles(can=False), ["file system"] + 5 * ["log"]),
        (CountingFiles(fails=True), ["file system"] + 5 * ["log"]),
    ],
    ids=["synced at once", "cannot", "fails"],
)
async def test_logs_that_are_redone_are_synced_once(tmp_path: Path, files: CountingFiles, syncs: list[str]) -> None:
    copy = tmp_path / "copy"
    killed = LocalStorage(tmp_path / "killed")
    await killed.open()
    for number in range(5):
        log = await killed.open_log(f"topics/1/{number}", LogOptions())
        await log.append(frame(0))
        await log.append(frame(1))
    shutil.copytree(tmp_path / "killed", copy)  # as a process leaves it that is killed now
    await killed.close()
    storage = LocalStorage(copy, LocalSettings(few_logs=FEW), LocalSystem(files=files))
    await storage.open()
    for number in range(5):
        log = await storage.open_log(f"topics/1/{number}", LogOptions())
        assert log.readable_offset == 2
    assert files.syncs == syncs
    await storage.close()
