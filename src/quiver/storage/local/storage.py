"""The local engine: logs in segment files under one directory, for one process or the workers of one supervisor."""

import asyncio
import contextlib
from pathlib import Path

from quiver.log.files.directories import Directories
from quiver.log.files.open_files import OpenFiles
from quiver.log.files.sync_times import SyncTimes
from quiver.log.files.write_error import storage_error
from quiver.log.recovery.opening import open_segment_log
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import Closed, PartitionOffline
from quiver.model.names import StartEpoch
from quiver.storage.local.data_directory import DataDirectory, is_log
from quiver.storage.local.free_space import FreeSpace
from quiver.storage.local.log import LocalLog, segment_limits
from quiver.storage.local.log_opener import LogOpener
from quiver.storage.local.resources import LocalResources
from quiver.storage.local.settings import (
    DEFAULT_SETTINGS,
    DEFAULT_SYSTEM,
    LocalSettings,
    LocalSystem,
    default_max_open_files,
)
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.log import WriteAheadLog
from quiver.storage.local.write_behind import Flusher
from quiver.storage.memory.storage import check_log_id
from quiver.storage.port import LogOptions
from quiver.system.pace import bounded_gather, paced

_SHOWN = 3
_FEW_LOGS = 64
READ_THREADS = 4
BACKGROUND_THREADS = 4
_REMOVED_IN_ONE_CALL = 16


class LocalStorage:
    """Call `open` first: it takes the lock, unless the settings have it. `close` closes every log and the lock."""

    def __init__(
        self, root: Path, settings: LocalSettings = DEFAULT_SETTINGS, system: LocalSystem = DEFAULT_SYSTEM
    ) -> None:
        files, new_threads = system.files, system.new_threads
        self._root = Path(root)
        self._settings = settings
        self._directory = DataDirectory(self._root, files, system.clock)
        self._logs_path = self._directory.logs_path
        self._files = files
        self._directories = Directories(self._root, files, few_logs=settings.few_logs)
        self._clock = system.clock
        self._open_files = OpenFiles(files, settings.max_open_files or default_max_open_files())
        space = FreeSpace(self._root, files, settings.min_free_bytes, settings.workers)
        background = new_threads(BACKGROUND_THREADS, "flush")
        wal_writes = new_threads(1, "wal")
        self.resources = LocalResources(
            writes=new_threads(settings.sync_threads, "write"),
            reads=new_threads(READ_THREADS, "read"),
            background=background,
            space=space,
            flusher=Flusher(background, space),
            wal_writes=wal_writes,
            wal=WriteAheadLog(
                WalFiles(self._directory.wal_path(settings.worker), files, self._open_files.sync_times),
                wal_writes,
                settings.wal_file_bytes,
            ),
            compactor=system.new_compactor(files, background),
            randomness=system.randomness,
        )
        self._opener = LogOpener(self.resources.writes, settings.sync_threads, self._open_segment_log)
        self._epoch_turn = asyncio.Lock()
        self._logs: dict[str, LocalLog] = {}
        self._most_logs = _FEW_LOGS
        self._opening: dict[str, asyncio.Lock] = {}
        self._lock_fd = -1
        self._is_redone = False

    @property
    def buffer_numbers(self) -> None:
        return None

    @property
    def sync_times(self) -> SyncTimes:
        return self._open_files.sync_times

    @property
    def problem(self) -> str | None:
        return self.resources.space.problem or self.failure or self.resources.flusher.problem

    @property
    def failure(self) -> str | None:
        """Logs that take no writes before the next start, because a write or a sync of them has failed."""
        failed = [f"{log.log_id}: {log.failure}" for log in self._troubled() if log.failure]
        return f"offline for writes: {'; '.join(failed[:3])}" if failed else None

    @property
    def warnings(self) -> dict[str, str]:
        found = {}
        for log in self._troubled():
            if problems := [*log.snapshot_problems, *[each.error().message for each in log.damage]]:
                more = len(problems) - _SHOWN
                found[log.log_id] = "; ".join(problems[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        return found

    def _troubled(self) -> list[LocalLog]:
        """Those that something was found wrong with, unless they are closed."""
        logs = [self._logs.get(log_id) for log_id in sorted(self._open_files.troubled)]
        return [log for log in logs if log is not None and (log.failure is not None or not log.is_released)]

    def _let_go(self) -> None:
        """Of those that are closed, but not of those that failed: they stay offline. Each time there are twice as
        many as were left the last time."""
        if len(self._logs) >= self._most_logs:
            for log_id in [log_id for log_id, log in self._logs.items() if log.is_released and log.failure is None]:
                del self._logs[log_id]
            self._most_logs = max(_FEW_LOGS, 2 * len(self._logs))

    async def open(self) -> None:
        """Takes the data directory; DataDirectoryInUse names the process that has it."""
        if self._lock_fd < 0:
            await self.resources.writes.run(self._take_directory)
            self.resources.flusher.start()

    def _take_directory(self) -> None:
        held = self._settings.lock_fd
        self._lock_fd = held if held >= 0 else self._directory.lock()
        self.resources.space.look()
        found_logs = self._directories.found_logs
        try:
            if held >= 0:
                self._directory.redo(self._settings.worker, found_logs)
            else:
                self._directory.redo_all(found_logs)
        except OSError as error:
            raise storage_error("the write-ahead log", error) from error
        self._is_redone = True

    async def open_log(self, log_id: str, options: LogOptions) -> LocalLog:
        if self._lock_fd < 0:
            raise Closed(what=f"the storage in {self._root}")
        check_log_id(log_id)
        async with self._opening.setdefault(log_id, asyncio.Lock()):
            log = self._logs.get(log_id)
            if log is not None and log.is_released and log.failure is not None:
                # The write-ahead log may have what its segment lost, and is redone at a start only.
                raise PartitionOffline(partition=log_id, problem=log.failure)
            if log is None or log.is_released:
                self._let_go()
                disk = await self._opener.open(log_id, options)
                log = self._logs[log_id] = LocalLog(disk, options, self.resources)
            log.configure(options)
        self._opening.pop(log_id, None)  # whoever waits for the lock finds the log
        return log

    def _open_segment_log(self, log_id: str, options: LogOptions) -> SegmentLog:
        try:
            return open_segment_log(
                log_id,
                self._logs_path / log_id,
                self._open_files,
                segment_limits(options),
                directories=self._directories,
                clock=self._clock,
            )
        except OSError as error:
            raise storage_error(log_id, error) from error

    async def discard_logs(self, directory: str) -> None:
        below = f"{check_log_id(directory)}/"
        open_ = [log_id for log_id in self._logs if log_id == directory or log_id.startswith(below)]
        removed = []
        async for log_id in paced(open_):
            if (log := self._logs.get(log_id)) is not None:
                await log.discard()
                self._logs.pop(log_id, None)
                removed.append(log.wal_appends)
        # Without it nothing is wrong: logs without files are not redone, and ids are never used again.
        with contextlib.suppress(OSError):
            await self.resources.wal.forget(directory, removed)

    async def delete_logs(self, directory: str) -> None:
        await self.discard_logs(directory)
        path = self._logs_path / directory
        self._directories.forget(path)
        names = await self.resources.background.run(self._files.names, path)
        if is_log(names):
            await self.resources.background.run(self._remove_log, path)
            return
        chunks = (names[first : first + _REMOVED_IN_ONE_CALL] for first in range(0, len(names), _REMOVED_IN_ONE_CALL))
        await bounded_gather(
            lambda chunk: self.resources.background.run(self._remove_trees, path, chunk),
            chunks,
            at_once=BACKGROUND_THREADS // 2,
        )
        if names:
            await self.resources.background.run(self._remove_directory, path)

    def _remove_trees(self, path: Path, names: list[str]) -> None:
        for name in names:
            self._files.remove_tree(path / name)

    def _remove_log(self, path: Path) -> None:
        self._files.remove_tree(path)
        self._remove_directory(path)

    def _remove_directory(self, path: Path) -> None:
        """Makes the removal of its logs durable, and removes those above it that are empty then."""
        while path != self._logs_path and not self._files.names(path):
            self._directories.forget(path)
            self._files.remove_tree(path)
            path = path.parent
        self._files.sync_directory(path)

    async def list_logs(self, prefix: str = "") -> list[str]:
        found = await self.resources.reads.run(self._directory.find_logs, prefix.rpartition("/")[0])
        return sorted(log_id for log_id in found if log_id.startswith(prefix))

    async def next_start_epoch(self) -> StartEpoch:
        async with self._epoch_turn:
            is_alone = self._settings.lock_fd < 0
            return await self.resources.writes.run(self._directory.next_start_epoch, is_alone=is_alone)

    async def close(self) -> None:
        await self.resources.flusher.stop()
        problems = [problem for problem in await bounded_gather(_close, list(self._logs.values())) if problem]
        if self._lock_fd >= 0 and self._is_redone:  # otherwise it belongs to another process, or to the next start
            await self.resources.wal.close()
        for threads in self.resources.threads():
            threads.close()
        if self._lock_fd >= 0:
            self._files.close(self._lock_fd)
            self._lock_fd = -1
        for problem in problems:
            raise problem


async def _close(log: LocalLog) -> Exception | None:
    try:
        await log.close()
    except Exception as problem:
        return problem
    return None
