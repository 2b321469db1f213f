"""What the local engine does beyond the contract of all engines: locks, flushing, full and failing disks."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from quiver.log.recovery.reservation import MIN_STEP, Reservation
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import Closed, DataDirectoryInUse, DiskFull, PartitionOffline, QuiverError
from quiver.storage.local.data_directory import DataDirectory
from quiver.storage.local.log import LocalLog
from quiver.storage.local.settings import LocalSettings, LocalSystem
from quiver.storage.local.storage import LocalStorage
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.record import FRAMES, encode
from quiver.storage.port import LogOptions
from quiver.system.clock import SystemClock
from quiver.system.files import Files
from quiver.testing.files import FailingFiles
from unit.log.frames import frame_at, frame_bytes

INTERVAL = LogOptions(durability="interval")


class NoDescriptors(Files):
    """Opens nothing while they `are_gone`."""

    def __init__(self, error: int = errno.EMFILE) -> None:
        self.are_gone = False
        self.only_for = ""
        self._error = error

    def open(self, path: Path, *, create: bool = False) -> int:
        if self.are_gone and path.name.endswith(self.only_for):
            raise OSError(self._error, os.strerror(self._error))
        return super().open(path, create=create)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable]:
    started: list[LocalStorage] = []

    async def open_storage(files: Files | None = None, **options: int) -> LocalStorage:
        storage = LocalStorage(
            tmp_path / "data",
            LocalSettings(min_free_bytes=0)._replace(**options),
            LocalSystem(files=files or Files()),
        )
        await storage.open()
        started.append(storage)
        return storage

    yield open_storage
    for storage in started:
        await storage.close()


def kill(storage: LocalStorage) -> None:
    """Gives the lock back without closing anything, as the end of a process does."""
    os.close(storage._lock_fd)
    storage._lock_fd = -1
    storage._logs.clear()


class TestLock:
    async def test_a_second_storage_is_told_who_holds_the_data(self, start: Callable, tmp_path: Path) -> None:
        first = await start()
        second = LocalStorage(tmp_path / "data")
        with pytest.raises(DataDirectoryInUse, match=str(os.getpid())):
            await second.open()
        await first.close()
        await start()

    async def test_opening_and_closing_twice_is_harmless(self, start: Callable) -> None:
        storage = await start()
        await storage.open()
        await storage.close()
        await storage.close()
        with pytest.raises(Closed):
            await storage.open_log("a", LogOptions())

    async def test_a_closed_log_says_so(self, start: Callable) -> None:
        storage = await start()
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0)])
        await log.close()
        with pytest.raises(Closed):
            await log.append([frame_at(1)])
        with pytest.raises(Closed):
            await log.read(0, max_bytes=1)
        log = await storage.open_log("a", LogOptions())
        assert log.end_offset == 1


class TestFlushing:
    async def test_fsync_logs_are_synced_when_append_returns(self, start: Callable) -> None:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0)])
        files.operations.clear()
        await log.append([frame_at(1), frame_at(2)])
        assert files.operations[0] == "pwritev", "one write to the segment"
        files.operations.clear()
        await log.append([frame_at(3), frame_at(4)])
        assert files.operations == ["pwritev", "pwritev", "fdatasync"], "then one to the write-ahead log, and a sync"
        files.operations.clear()
        await log.append([frame_at(5, body=bytes(100_000))])
        assert files.operations == ["pwritev", "fdatasync"], "a large one is synced where it is"

    async def test_what_nobody_waited_for_is_synced_in_the_write_ahead_log(self, start: Callable) -> None:
        files = FailingFiles()
        storage = await start(files)
        log, other = await storage.open_log("a", LogOptions()), await storage.open_log("b", LogOptions())
        for each in (log, other):
            await each.append([frame_at(0)])
        await log.append([frame_at(1)])
        files.operations.clear()
        for each in (log, other):
            await each.append([frame_at(each.end_offset)], sync=False)
        assert files.operations == ["pwritev", "pwritev"], "of the segments"
        await asyncio.gather(log.sync(), other.sync())
        assert files.operations[2:] == ["pwritev", "fdatasync"], "one for both"

    async def test_the_write_ahead_log_is_needed_until_what_is_on_its_way_is_synced_too(
        self, start: Callable
    ) -> None:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0)])
        await log.sync()
        appending = asyncio.ensure_future(log.append([frame_at(1)]))
        await asyncio.sleep(0)
        assert files.operations[-1] == "pwritev", "it is in the segment, and nobody sees it yet"
        assert log.end_offset == 1
        synced = files.operations.count("fdatasync")
        assert await log.wal_appends.flush()
        await appending
        assert files.operations.count("fdatasync") == synced + 2, "of the segment, and of the write-ahead log"

    async def test_interval_logs_are_synced_behind_the_append(self, start: Callable) -> None:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", INTERVAL)
        await log.append([frame_at(0)])
        await storage.resources.flusher.flush()
        files.operations.clear()
        await log.append([frame_at(1)])
        assert files.operations == ["pwritev"]
        await storage.resources.flusher.flush()
        assert files.operations == ["pwritev", "fdatasync"]
        await storage.resources.flusher.flush()
        assert files.operations == ["pwritev", "fdatasync"], "nothing is synced without need"

    async def test_the_tail_is_synced_even_when_nothing_follows(
        self, start: Callable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("quiver.storage.local.write_behind.FLUSH_SECONDS", 0.0)
        synced = asyncio.Event()
        loop = asyncio.get_running_loop()

        class WatchedFiles(Files):
            def fdatasync(self, fd: int) -> None:
                if os.readlink(f"/proc/self/fd/{fd}").endswith(".log"):
                    loop.call_soon_threadsafe(synced.set)

        storage = await start(WatchedFiles())
        log = await storage.open_log("a", INTERVAL)
        await log.append([frame_at(0)])
        await asyncio.wait_for(synced.wait(), 30)

    async def test_many_unsynced_bytes_are_synced_at_once(self, start: Callable) -> None:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", INTERVAL)
        body = bytes(1 << 20)
        for offset in range(20):
            await log.append([frame_at(offset, body=body)])
        await log._behind.finish()
        assert files.operations.count("fdatasync") >= 2


class TestWriteAheadLogOfOthers:
    async def test_a_start_that_is_refused_leaves_it_alone(self, start: Callable, tmp_path: Path) -> None:
        log = await (storage := await start()).open_log("a", LogOptions())
        for offset in range(3):
            await log.append([frame_at(offset)])
        [file] = (tmp_path / "data" / "wal" / "0").glob("*.wal")
        content = file.read_bytes()
        second = LocalStorage(tmp_path / "data")
        with pytest.raises(DataDirectoryInUse):
            await second.open()
        await second.close()
        assert file.read_bytes() == content
        await storage.close()
        assert not file.exists()

    async def test_it_is_kept_until_it_is_redone(self, tmp_path: Path) -> None:
        segment = tmp_path / "logs" / "a" / f"{0:020d}.log"
        segment.parent.mkdir(parents=True)
        segment.touch()
        WalFiles(tmp_path / "wal", Files()).write(1, [encode(1, FRAMES, b"a", 0, 0, [frame_bytes(frame_at(0))])])
        files = FailingFiles(kind="no_space")
        storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0), LocalSystem(files=files))
        files.fail_at = 4
        with pytest.raises(QuiverError):
            await storage.open()
        assert files.operations[-1] in ("pwritev", "fdatasync")
        await storage.close()
        storage = LocalStorage(tmp_path, LocalSettings(min_free_bytes=0))
        await storage.open()
        assert (await storage.open_log("a", LogOptions())).end_offset == 1
        await storage.close()


class TestWriteAheadLogsOfWorkers:
    @pytest.fixture
    def written(self, tmp_path: Path) -> Path:
        """A crash has left the write-ahead logs of two workers, and one in the place before there were workers."""
        for log_id, wal in (("a", "wal"), ("b", "wal/0"), ("c", "wal/3")):
            segment = tmp_path / "logs" / log_id / f"{0:020d}.log"
            segment.parent.mkdir(parents=True)
            segment.touch()
            record = encode(1, FRAMES, log_id.encode(), 0, 0, [frame_bytes(frame_at(0))])
            WalFiles(tmp_path / wal, Files()).write(1, [record])
        return tmp_path

    async def test_whoever_is_alone_redoes_all(self, written: Path) -> None:
        storage = LocalStorage(written, LocalSettings(min_free_bytes=0))
        await storage.open()
        assert [(await storage.open_log(log_id, LogOptions())).end_offset for log_id in "abc"] == [1, 1, 1]
        assert not list((written / "wal").rglob("*.wal"))
        await storage.close()

    async def test_a_worker_redoes_its_own(self, written: Path) -> None:
        lock = Files().lock(written / "lock")
        storage = LocalStorage(written, LocalSettings(min_free_bytes=0, worker=3, workers=4, lock_fd=lock))
        await storage.open()
        assert (await storage.open_log("c", LogOptions())).end_offset == 1
        left = [path.parent for path in (written / "wal").rglob("*.wal")]
        assert sorted(left) == [written / "wal", written / "wal" / "0"]
        with pytest.raises(QuiverError, match="start the broker again"):
            await storage.next_start_epoch()
        DataDirectory(written, Files(), SystemClock()).ensure_start_epoch()
        assert [await storage.next_start_epoch() for _ in range(2)] == [1002, 1003]
        await storage.close()


class TestFailedSync:
    @pytest.mark.parametrize("durability", ["fsync", "interval"])
    async def test_the_log_goes_offline_and_reads_go_on(self, start: Callable, durability: str) -> None:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", LogOptions(durability=durability))
        other = await storage.open_log("b", LogOptions(durability=durability))
        await log.append([frame_at(0)])
        await log.sync()
        files.fail_at = len(files.operations) + 2
        if durability == "fsync":
            with pytest.raises(PartitionOffline):
                await log.append([frame_at(1, body=bytes(100_000))])
            assert log.readable_offset == 1
        else:
            await log.append([frame_at(1)])
            await storage.resources.flusher.flush()
        assert "sync failed" in str(log.failure)
        assert "a: " in str(storage.problem)
        with pytest.raises(PartitionOffline):
            await log.append([frame_at(log.end_offset)])
        piece = await log.read(0, max_bytes=1 << 20)
        assert piece is not None
        assert bytes(await piece.read())[:88] == frame_bytes(frame_at(0))[:88]
        piece.release()
        await other.append([frame_at(0)])

    async def test_a_write_ahead_log_that_fails_takes_no_log_offline(self, start: Callable) -> None:
        class BadWal(Files):
            syncs = 0

            def fdatasync(self, fd: int) -> None:
                if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".wal":
                    self.syncs += 1
                    if self.syncs % 3 == 0:
                        raise OSError(5, "bad disk")

        files = BadWal()
        storage = await start(files)
        log = await storage.open_log("a", LogOptions())
        for offset in range(40):
            await log.append([frame_at(offset)], sync=offset % 4 > 0)
        assert files.syncs > 9
        assert log.failure is None
        await storage.close()
        log = await (await start()).open_log("a", LogOptions())
        assert log.end_offset == 40

    @staticmethod
    async def _with_a_failed_log(start: Callable) -> tuple[LocalStorage, LocalLog]:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0)])
        files.fail_at = len(files.operations) + 2
        with pytest.raises(PartitionOffline):
            await log.append([frame_at(1, body=bytes(100_000))])
        return storage, log

    async def test_it_is_not_opened_again_before_a_restart(self, start: Callable) -> None:
        storage, log = await self._with_a_failed_log(start)
        await log.close()
        assert storage.problem is not None
        with pytest.raises(PartitionOffline):
            await storage.open_log("a", LogOptions())
        await storage.close()
        log = await (await start()).open_log("a", LogOptions())
        await log.append([frame_at(log.end_offset)])

    async def test_after_a_restart_it_takes_writes_again(self, start: Callable) -> None:
        storage, _ = await self._with_a_failed_log(start)
        await storage.close()
        log = await (await start()).open_log("a", LogOptions())
        assert log.failure is None
        await log.append([frame_at(log.end_offset)])


class TestFullDisk:
    async def test_writes_stop_before_the_disk_is_full_and_resume(self, start: Callable) -> None:
        class SmallDisk(Files):
            free = 10_000

            def free_bytes(self, path: Path) -> int:
                return self.free

        files = SmallDisk()
        storage = await start(files, min_free_bytes=4_000)
        for durability in ("fsync", "interval"):
            files.free = 10_000
            storage.resources.space.look()
            log = await storage.open_log(durability, LogOptions(durability=durability))
            await log.append([frame_at(0, body=bytes(1_000))])
            with pytest.raises(DiskFull, match="kept free"):
                await log.append([frame_at(1, body=bytes(6_000))])
            assert storage.problem is not None
            assert log.end_offset == 1
            piece = await log.read(0, max_bytes=1 << 20)
            assert piece is not None
            piece.release()
            files.free = 100_000
            await log.append([frame_at(1, body=bytes(6_000))])
            assert storage.problem is None

    @pytest.mark.parametrize("durability", ["fsync", "interval"])
    async def test_a_short_write_is_rolled_back(self, start: Callable, tmp_path: Path, durability: str) -> None:
        files = FailingFiles(kind="short_write")
        storage = await start(files)
        log = await storage.open_log("a", LogOptions(durability=durability))
        await log.append([frame_at(0, body=bytes(100))])
        size = log.size_bytes
        files.fail_at = len(files.operations) + 1
        with pytest.raises(DiskFull):
            await log.append([frame_at(1, body=bytes(5_000)), frame_at(2)])
        assert (tmp_path / "data/logs/a" / f"{0:020d}.log").stat().st_size == log.size_bytes == size
        await log.append([frame_at(1)])
        assert log.failure is None

    async def test_a_large_append_of_which_a_part_is_on_its_way_to_the_disk_is_rolled_back(
        self, start: Callable, tmp_path: Path
    ) -> None:
        files = FailingFiles(kind="short_write")
        log = await (await start(files)).open_log("a", LogOptions())
        await log.append([frame_at(0, body=bytes(100))])
        size = log.size_bytes
        large = [frame_at(offset, body=bytes([offset]) * (1 << 20)) for offset in range(1, 6)]
        files.fail_at = len(files.operations) + 2  # the second part
        with pytest.raises(DiskFull):
            await log.append(large)
        assert (tmp_path / "data/logs/a" / f"{0:020d}.log").stat().st_size == log.size_bytes == size
        await log.append(large)
        assert files.operations[-4:] == ["pwritev", "pwritev", "pwritev", "fdatasync"]
        found = await log.read(1, max_bytes=8 << 20)
        assert found is not None
        assert bytes(await found.read()) == b"".join(map(frame_bytes, large))
        found.release()

    async def test_too_many_open_files_pass(self, start: Callable) -> None:
        files = NoDescriptors()
        storage = await start(files)
        log = await storage.open_log("a", LogOptions())
        files.are_gone = True
        with pytest.raises(DiskFull, match="too many open files"):
            await log.append([frame_at(0)])
        files.are_gone = False
        await log.append([frame_at(0)])

    @pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
    @pytest.mark.parametrize("durability", ["fsync", "interval"])
    async def test_a_log_whose_file_was_closed_waits_for_a_descriptor(
        self, start: Callable, durability: str, error: int
    ) -> None:
        files = NoDescriptors(error)
        storage = await start(files, max_open_files=1)
        log, other = [await storage.open_log(name, LogOptions(durability=durability)) for name in ("a", "b")]
        for each in (log, other):
            await each.append([frame_at(0)])
        files.are_gone = True
        await log.sync()
        for body in (b"x", bytes(100_000), bytes(100_000_000)):  # into the segment, and into the next one
            with pytest.raises(DiskFull):
                await log.append([frame_at(1, body=body)])
        with pytest.raises(DiskFull):
            await log.roll()
        await log.sync()
        assert log.failure is None
        files.are_gone = False
        await log.append([frame_at(1)])
        kill(storage)
        assert (await (await start()).open_log("a", LogOptions())).failure is None

    @pytest.mark.parametrize("file", [".log", "reserved"])
    async def test_recovery_without_descriptors_is_tried_again(
        self, start: Callable, tmp_path: Path, file: str
    ) -> None:
        storage = await start()
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0)])
        kill(storage)
        with (tmp_path / "data/logs/a" / f"{0:020d}.log").open("ab") as segment:
            segment.write(b"torn")
        files = NoDescriptors()
        storage = await start(files)
        files.are_gone, files.only_for = True, file
        with pytest.raises(DiskFull):
            await storage.open_log("a", LogOptions())
        files.are_gone = False
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(log.end_offset)])


class TestReservedOffsets:
    @pytest.mark.parametrize("durability", ["interval", "memory"])
    async def test_a_killed_log_goes_on_above_its_bound(self, start: Callable, durability: str) -> None:
        options = LogOptions(durability=durability)
        storage = await start()
        log = await storage.open_log("a", options)
        await log.append([frame_at(0, count=5)])
        kill(storage)
        log = await (await start()).open_log("a", options)
        assert log.end_offset >= 5 + MIN_STEP // 2
        first = log.end_offset
        await log.append([frame_at(first)])
        assert log.end_offset == first + 1
        piece = await log.read(first, max_bytes=1)
        assert piece is not None
        piece.release()

    async def test_a_reservation_under_way_does_not_outlive_a_cut(
        self, start: Callable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Such a reservation saves the old end, which recovery would take for frames that are lost."""
        is_hiding, may_reserve, has_reserved = threading.Event(), threading.Event(), threading.Event()
        hide, renew = SegmentLog._hide_from, Reservation.renew

        def renew_later(self: Reservation, *args: Any) -> None:
            may_reserve.wait()
            renew(self, *args)
            has_reserved.set()

        def hide_later(self: SegmentLog, *args: Any) -> None:
            is_hiding.set()
            has_reserved.wait(10)
            hide(self, *args)

        storage = await start()
        log = await storage.open_log("a", INTERVAL)
        await log.append([frame_at(0)])
        monkeypatch.setattr(Reservation, "renew", renew_later)
        monkeypatch.setattr(SegmentLog, "_hide_from", hide_later)
        await log.append([frame_at(log.end_offset + MIN_STEP // 2 + 1)])
        cutting = asyncio.ensure_future(log.truncate(1))
        await asyncio.to_thread(is_hiding.wait, 0.1)
        may_reserve.set()
        await cutting
        kill(storage)
        log = await (await start()).open_log("a", INTERVAL)
        assert (log.end_offset, log.damage) == (1, [])

    async def test_a_closed_log_goes_on_where_it_was(self, start: Callable) -> None:
        for durability in ("interval", "memory", "fsync"):
            storage = await start()
            log = await storage.open_log(durability, LogOptions(durability=durability))
            await log.append([frame_at(0, count=5)])
            await storage.close()
            storage = await start()
            log = await storage.open_log(durability, LogOptions(durability=durability))
            assert log.end_offset == 5
            await storage.close()

    async def test_the_bound_is_on_disk_before_an_offset_beyond_it_is_given_out(self, start: Callable) -> None:
        files = FailingFiles()
        storage = await start(files)
        log = await storage.open_log("a", INTERVAL)
        await log.append([frame_at(0)])
        files.operations.clear()
        await log.append([frame_at(1, count=10 * MIN_STEP)])
        assert files.operations[:2] == ["pwritev", "fdatasync"]
        assert log._disk.reservation.limit > 10 * MIN_STEP

    async def test_a_busy_log_seldom_waits_for_its_bound(self, start: Callable) -> None:
        storage = await start()
        log: LocalLog = await storage.open_log("a", INTERVAL)
        bounds = set()
        for _ in range(200):
            await log.append([frame_at(log.end_offset, count=100_000)])
            await log._behind.finish()
            bounds.add(log._disk.reservation.limit)
        assert len(bounds) < 20

    async def test_a_bound_that_cannot_be_saved_refuses_the_append(self, start: Callable) -> None:
        files = FailingFiles(kind="no_space")
        storage = await start(files)
        log = await storage.open_log("a", INTERVAL)
        files.fail_at = len(files.operations) + 1
        with pytest.raises(DiskFull):
            await log.append([frame_at(0)])
        assert log.end_offset == 0
        await log.append([frame_at(0)])


class TestHandles:
    async def test_many_logs_with_few_descriptors(self, start: Callable) -> None:
        storage = await start(max_open_files=8)
        logs = [await storage.open_log(f"t/{n}", INTERVAL) for n in range(60)]
        for turn in range(3):
            for n, log in enumerate(logs):
                await log.append([frame_at(log.end_offset, body=b"%d %d" % (n, turn))])
        assert len(storage._open_files) <= 8
        for log in logs:
            assert log.end_offset == 3
            piece = await log.read(0, max_bytes=1 << 20)
            assert piece is not None
            assert len(await piece.read()) == log.size_bytes
            piece.release()
        assert len(storage._open_files) <= 8

    async def test_a_slice_keeps_its_descriptor(self, start: Callable) -> None:
        storage = await start(max_open_files=2)
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0, body=b"hello")])
        piece = await log.read(0, max_bytes=1 << 20)
        assert piece is not None
        for n in range(10):
            other = await storage.open_log(f"t/{n}", LogOptions())
            await other.append([frame_at(0)])
        assert piece.file is not None
        fd, position = piece.file
        assert os.pread(fd, piece.length, position) == frame_bytes(frame_at(0, body=b"hello"))
        piece.release()
        piece.release()

    async def test_deleting_a_log_frees_its_files(self, start: Callable, tmp_path: Path) -> None:
        storage = await start()
        log = await storage.open_log("topics/1/0", LogOptions())
        await log.append([frame_at(0)])
        await storage.delete_logs("topics/1")
        assert list((tmp_path / "data/logs").iterdir()) == []
        assert len(storage._open_files) == 0


class TestCancelling:
    async def test_a_cancelled_append_is_finished_before_the_next(self, start: Callable) -> None:
        storage = await start()
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0)])
        task = asyncio.create_task(log.append([frame_at(1, body=bytes(1 << 20))]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await log.append([frame_at(log.end_offset, body=b"next")])
        assert log.size_bytes == log._disk.view.segments[0].path.stat().st_size

    async def test_a_cancelled_read_leaves_nothing_pinned(self, start: Callable) -> None:
        storage = await start()
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0), frame_at(1)])
        task = asyncio.create_task(log.read(1, max_bytes=1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert log._disk.view.segments[0].file.pins == 0


class TestEpochs:
    @pytest.mark.parametrize("content", [None, b"", b"7", b"7 00000000\n", b"\xff\xfe", b"x 1"])
    async def test_a_lost_epoch_file_never_makes_epochs_fall(
        self, start: Callable, tmp_path: Path, content: bytes | None
    ) -> None:
        storage = await start()
        epoch = max([await storage.next_start_epoch() for _ in range(5)])
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0, epoch=epoch)])
        await storage.close()
        path = tmp_path / "data/epoch"
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert await (await start()).next_start_epoch() > epoch

    async def test_many_at_once(self, start: Callable) -> None:
        storage = await start()
        epochs = await asyncio.gather(*[storage.next_start_epoch() for _ in range(20)])
        assert len(set(epochs)) == 20


class TestRetention:
    async def test_a_file_from_the_future_is_dated_once_and_grows_old_over_restarts(
        self, start: Callable, tmp_path: Path
    ) -> None:
        now_ms, year_ms = 1_800_000_000_000, 366 * 86_400_000
        storage = await start()
        log = await storage.open_log("a", LogOptions())
        await log.append([frame_at(0, time_ms=now_ms + year_ms)])
        await log.roll()
        (first, _) = sorted((tmp_path / "data").rglob("*.log"))
        os.utime(first, (now_ms / 1000 + 366 * 86_400, now_ms / 1000 + 366 * 86_400))
        limits = {"retention_ms": 60_000, "retention_bytes": None}
        assert await log.retention_offset(now_ms=now_ms, **limits) == 0
        await storage.close()
        storage = await start()
        log = await storage.open_log("a", LogOptions())
        assert await log.retention_offset(now_ms=now_ms + 59_000, **limits) == 0
        assert await log.retention_offset(now_ms=now_ms + 61_000, **limits) == 1
