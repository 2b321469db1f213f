"""One sync for everybody who waits; files that fill up, fail and are used again."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from quiver.model.limits import KIB
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.log import MAX_FULL_FILES, WalBatch, WriteAheadLog
from quiver.storage.local.wal.record import FORGET, FRAMES
from quiver.system.files import Files
from quiver.system.threads import InlineThreads, ThreadPool
from quiver.testing.files import FailingFiles


class Dirty:
    """A log that counts its syncs."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.flushed = 0
        self.may_flush = asyncio.Event()
        self.may_flush.set()

    async def flush(self) -> bool:
        await self.may_flush.wait()
        self.flushed += 1
        return self.works


@pytest.fixture
async def pool() -> AsyncIterator[ThreadPool]:
    threads = ThreadPool(1, "wal")
    yield threads
    threads.close()


def positions(directory: Path) -> list[int]:
    return [record.position for record in WalFiles(directory, Files()).records()]


async def on_disk(wal: WriteAheadLog, batch: WalBatch) -> bool:
    wal.commit()
    await batch.done()
    return bool(batch.is_on_disk)


async def test_appends_of_one_moment_share_a_sync(tmp_path: Path, pool: ThreadPool) -> None:
    files = FailingFiles()
    wal = WriteAheadLog(WalFiles(tmp_path, files), pool, 64 * KIB)

    async def append(number: int) -> bool:
        return await on_disk(wal, wal.add(Dirty(), b"topics/%d/0" % number, 0, number, [b"frame"]))

    assert all(await asyncio.gather(*(append(number) for number in range(100))))
    assert files.operations.count("fdatasync") == 1
    assert positions(tmp_path) == list(range(100))
    await wal.close()


async def test_what_nobody_waits_for_is_written_with_the_next_batch(tmp_path: Path, pool: ThreadPool) -> None:
    wal = WriteAheadLog(WalFiles(tmp_path, Files()), pool, 64 * KIB)
    wal.add(Dirty(), b"a", 0, 1, [b"not waited for"])
    batch = wal.add(Dirty(), b"b", 0, 2, [b"waited for"])
    assert positions(tmp_path) == []
    assert await on_disk(wal, batch)
    assert positions(tmp_path) == [1, 2]
    wal.add(Dirty(works=False), b"a", 0, 3, [b"written at the end"])
    await wal.close()
    assert positions(tmp_path) == [1, 2, 3]


async def test_a_full_file_is_used_again_when_its_logs_are_synced(tmp_path: Path) -> None:
    wal, log = WriteAheadLog(WalFiles(tmp_path, Files()), InlineThreads(), 4 * KIB), Dirty()
    inodes = set()
    for number in range(100):
        assert await on_disk(wal, wal.add(log, b"a", 0, number, [bytes(1000)]))
        inodes |= {path.stat().st_ino for path in tmp_path.iterdir()}
        assert len(list(tmp_path.iterdir())) <= MAX_FULL_FILES + 2
    assert log.flushed > 20
    assert len(inodes) <= MAX_FULL_FILES + 2, "no more files are made than are needed"
    assert positions(tmp_path)[-1] == 99
    await wal.close()
    assert not list(tmp_path.iterdir())


async def test_appends_wait_while_too_many_files_are_full(tmp_path: Path) -> None:
    wal, slow = WriteAheadLog(WalFiles(tmp_path, Files()), InlineThreads(), 2 * KIB), Dirty()
    slow.may_flush.clear()
    batches = [wal.add(slow, b"a", 0, number, [bytes(1500)]) for number in range(3 * MAX_FULL_FILES)]
    assert await on_disk(wal, batches[MAX_FULL_FILES])
    for _ in range(20):
        await asyncio.sleep(0)
    assert batches[MAX_FULL_FILES + 1].is_on_disk is None
    slow.may_flush.set()
    assert await on_disk(wal, batches[-1])
    await wal.close()


async def test_a_log_that_cannot_be_synced_keeps_its_records(tmp_path: Path) -> None:
    wal, broken, good = (
        WriteAheadLog(WalFiles(tmp_path, Files()), InlineThreads(), 2 * KIB),
        Dirty(works=False),
        Dirty(),
    )
    assert await on_disk(wal, wal.add(broken, b"broken", 0, 1_000_000, [b"kept"]))
    for number in range(30):
        assert await on_disk(wal, wal.add(good, b"good", 0, number, [bytes(1500)])), "others go on"
    assert broken.flushed == 1, "it is not tried again and again"
    await wal.close()
    assert 1_000_000 in positions(tmp_path)


class OnLoop(InlineThreads):
    """A disk that is always quick."""

    def run_at_once(self, call: Callable[[], object]) -> bool:
        call()
        return True


@pytest.mark.parametrize("threads", [InlineThreads, OnLoop])
@pytest.mark.parametrize("kind", ["error", "no_space", "short_write"])
@pytest.mark.parametrize("operation", [1, 2, 3, 4, 5, 6])
async def test_a_failure_is_reported_and_nothing_is_written_after_a_hole(
    tmp_path: Path, threads: type[InlineThreads], kind: str, operation: int
) -> None:
    files = FailingFiles(kind=kind)  # type: ignore[arg-type]
    wal = WriteAheadLog(WalFiles(tmp_path / "wal", files), threads(), 64 * KIB)
    files.fail_at = operation
    log = Dirty(works=False)
    results = [await on_disk(wal, wal.add(log, b"a", 0, number, [b"frame"])) for number in range(5)]
    assert results.count(False) <= 2
    assert results[-1]
    assert wal.failures == results.count(False)
    await wal.close()
    found = positions(tmp_path / "wal")
    assert found == sorted(found)
    assert set(found) >= {number for number, result in enumerate(results) if result}


class FullDisk(Files):
    is_full = False

    def pwritev(self, fd: int, buffers, position: int) -> int:  # type: ignore[no-untyped-def]
        if self.is_full:
            raise OSError(28, os.strerror(28))
        return super().pwritev(fd, buffers, position)


async def test_records_are_forgotten_when_that_is_on_disk_or_it_fails(tmp_path: Path) -> None:
    files, log = FullDisk(), Dirty(works=False)
    wal = WriteAheadLog(WalFiles(tmp_path, files), InlineThreads(), 64 * KIB)
    assert await on_disk(wal, wal.add(log, b"topics/1/0", 0, 1, [b"frame"]))
    files.is_full = True
    with pytest.raises(OSError, match="cannot be written"):
        await wal.forget("topics/1")
    assert positions(tmp_path) == [1], "whoever wanted it forgotten must not cut its files"
    files.is_full = False
    await wal.forget("topics/1")
    assert await on_disk(wal, wal.add(log, b"topics/1/0", 0, 2, [b"frame"]))
    await wal.close()
    assert [record.kind for record in WalFiles(tmp_path, Files()).records()] == [FRAMES, FORGET, FRAMES]


async def test_what_is_to_be_forgotten_is_not_outlived_by_its_records(tmp_path: Path) -> None:
    wal, broken, good = (
        WriteAheadLog(WalFiles(tmp_path, Files()), InlineThreads(), 2 * KIB),
        Dirty(works=False),
        Dirty(),
    )
    wal.add(broken, b"broken", 0, 0, [b"keeps this file"])
    assert await on_disk(wal, wal.add(good, b"good", 0, 0, [bytes(1500)]))
    await wal.forget("good")
    for number in range(10):
        assert await on_disk(wal, wal.add(Dirty(), b"other", 0, number, [bytes(1500)]))
    await wal.close()
    kinds = [(record.kind, record.log_id) for record in WalFiles(tmp_path, Files()).records()]
    assert kinds.index((FORGET, "good")) > kinds.index((FRAMES, "good"))


async def test_closing_removes_the_files_when_every_log_is_synced(tmp_path: Path) -> None:
    synced, broken = Dirty(), Dirty(works=False)
    wal = WriteAheadLog(WalFiles(tmp_path, Files()), InlineThreads(), 64 * KIB)
    wal.add(synced, b"synced", 0, 1, [b"written when it is closed"])
    wal.add(broken, b"broken", 0, 2, [b"frame"])
    await wal.close()
    assert positions(tmp_path) == [1, 2], "one log still needs them"
    broken.works = True
    await wal.close()
    assert not list(tmp_path.iterdir())


async def test_an_append_that_waits_for_a_file_is_told_when_syncing_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = WriteAheadLog(WalFiles(tmp_path, Files()), InlineThreads(), 2 * KIB)
    assert await on_disk(wal, wal.add(Dirty(), b"a", 0, 0, [bytes(1500)]))
    monkeypatch.setattr(wal, "_room_for", _fails)
    assert not await on_disk(wal, wal.add(Dirty(), b"a", 0, 1500, [bytes(1500)]))
    monkeypatch.undo()
    await wal.close()


async def _fails(number: int) -> None:
    raise OSError(5, f"file {number} cannot be had")
