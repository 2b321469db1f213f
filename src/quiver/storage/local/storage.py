"""The local engine: logs in segment files under one directory, for one process at a time."""

import asyncio
import contextlib
import logging
import os
import resource
import sys
from pathlib import Path

from quiver.log.files.open_files import OpenFiles
from quiver.log.files.write_error import storage_error
from quiver.log.recovery.opening import open_segment_log
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import Closed, DataDirectoryInUse
from quiver.model.limits import MIB
from quiver.storage.compactor import Compactor, ProcessCompactor, SizedCompactor, ThreadCompactor
from quiver.storage.local.epoch_file import EpochFile
from quiver.storage.local.free_space import FreeSpace
from quiver.storage.local.log import LocalLog
from quiver.storage.local.write_behind import WriteBehind
from quiver.storage.memory.storage import check_log_id
from quiver.storage.port import LogOptions
from quiver.structures.ordered_set import OrderedSet
from quiver.system.clock import Clock, SystemClock
from quiver.system.files import Files
from quiver.system.pace import bounded_gather, paced
from quiver.system.randomness import Randomness, SystemRandomness
from quiver.system.threads import NewThreads, ThreadPool
from quiver.telemetry.supervised_task import SupervisedTask

MIN_FREE_BYTES = 256 * MIB
FLUSH_SECONDS = 1.0
_MANY_FILES = 1 << 20
_SHOWN = 3
READ_THREADS = 4
BACKGROUND_THREADS = 4
_REMOVED_IN_ONE_CALL = 16
_logger = logging.getLogger(__name__)


def default_max_open_files() -> int:
    """Three quarters of what the process may open, after raising its limit; the rest is for sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    limit = _MANY_FILES if soft == resource.RLIM_INFINITY else min(soft, _MANY_FILES)
    return max(64, limit * 3 // 4)


class LocalStorage:
    """Call `open` first: it takes the lock. `close` closes every log and gives the lock back."""

    def __init__(
        self,
        root: Path,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        max_open_files: int | None = None,
        min_free_bytes: int = MIN_FREE_BYTES,
        sync_threads: int = 8,
        compactor: Compactor | None = None,
        randomness: Randomness | None = None,
        new_threads: NewThreads = ThreadPool,
    ) -> None:
        self._root = Path(root)
        self._logs_path = self._root / "logs"
        self._files = files or Files()
        self._clock = clock or SystemClock()
        self._open_files = OpenFiles(self._files, max_open_files or default_max_open_files())
        self.space = FreeSpace(self._root, self._files, min_free_bytes)
        self.writes = new_threads(sync_threads, "write")
        self.reads = new_threads(READ_THREADS, "read")
        self.background = new_threads(BACKGROUND_THREADS, "flush")
        self.compactor = compactor or self._default_compactor()
        self.randomness = randomness or SystemRandomness()
        self._epoch_file = EpochFile(self._root / "epoch", self._files)
        self._epoch_turn = asyncio.Lock()
        self._logs: dict[str, LocalLog] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._dirty: OrderedSet[WriteBehind] = OrderedSet()
        self._flusher = SupervisedTask("flushing", self._flush_forever)
        self._lock_fd = -1

    @property
    def problem(self) -> str | None:
        failed = [f"{log.log_id}: {log.failure}" for log in self._logs.values() if log.failure]
        offline = f"offline for writes: {'; '.join(failed[:3])}" if failed else None
        return self.space.problem or offline or self._flusher.problem

    @property
    def warnings(self) -> dict[str, str]:
        found = {}
        for log in self._logs.values():
            damage = [each.error().message for each in log.damage]
            if problems := [*log.snapshot_problems, *damage]:
                more = len(problems) - _SHOWN
                found[log.log_id] = "; ".join(problems[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        return found

    def _default_compactor(self) -> Compactor:
        thread = ThreadCompactor(self._files, self.background)
        return SizedCompactor(thread, ProcessCompactor()) if sys.executable else thread

    async def open(self) -> None:
        """Takes the data directory; DataDirectoryInUse names the process that has it."""
        if self._lock_fd >= 0:
            return
        await self.writes.run(self._take_lock)
        self._flusher.start()

    def _take_lock(self) -> None:
        is_new = not self._files.names(self._root)
        self._files.make_directory(self._logs_path)
        if is_new:
            # Without its name in the directory above, a power cut takes everything; logs sync what is below it.
            with contextlib.suppress(PermissionError):
                self._files.sync_directory(self._root.parent)
        path = self._root / "lock"
        try:
            self._lock_fd = self._files.lock(path)
        except BlockingIOError:
            holder = self._files.read_file(path).decode(errors="replace").strip()
            raise DataDirectoryInUse(path=self._root, pid=holder or "unknown") from None
        self._files.truncate(self._lock_fd, 0)
        self._files.write_all(self._lock_fd, [f"{os.getpid()}\n".encode()], 0)
        self.space.look()

    async def open_log(self, log_id: str, options: LogOptions) -> LocalLog:
        if self._lock_fd < 0:
            raise Closed(what=f"the storage in {self._root}")
        check_log_id(log_id)
        async with self._opening.setdefault(log_id, asyncio.Lock()):
            log = self._logs.get(log_id)
            if log is None:
                disk = await self.writes.run(self._open_segment_log, log_id, options)
                log = self._logs[log_id] = LocalLog(self, disk, options)
            log.configure(options)
        self._opening.pop(log_id, None)  # whoever waits for the lock finds the log
        return log

    def _open_segment_log(self, log_id: str, options: LogOptions) -> SegmentLog:
        try:
            return open_segment_log(
                log_id,
                self._logs_path / log_id,
                self._open_files,
                segment_bytes=options.segment_bytes,
                roll_after_ms=options.roll_after_ms,
                root=self._root,
                clock=self._clock,
            )
        except OSError as error:
            raise storage_error(log_id, error) from error

    async def delete_logs(self, directory: str) -> None:
        prefix = f"{check_log_id(directory)}/"
        async for log in paced([log for log_id, log in self._logs.items() if log_id.startswith(prefix)]):
            await log.discard()
        path = self._logs_path / directory
        names = await self.background.run(self._files.names, path)
        chunks = (names[first : first + _REMOVED_IN_ONE_CALL] for first in range(0, len(names), _REMOVED_IN_ONE_CALL))
        await bounded_gather(
            lambda chunk: self.background.run(self._remove_trees, path, chunk),
            chunks,
            at_once=BACKGROUND_THREADS // 2,
        )
        if names:
            await self.background.run(self._remove_directory, path)

    def _remove_trees(self, path: Path, names: list[str]) -> None:
        for name in names:
            self._files.remove_tree(path / name)

    def _remove_directory(self, path: Path) -> None:
        """Makes the removal of its logs durable, and removes those above it that are empty then."""
        while path != self._logs_path and not self._files.names(path):
            self._files.remove_tree(path)
            path = path.parent
        self._files.sync_directory(path)

    async def list_logs(self, prefix: str = "") -> list[str]:
        found = await self.reads.run(self._find_logs)
        return sorted(log_id for log_id in found if log_id.startswith(prefix))

    def _find_logs(self) -> list[str]:
        found, waiting = [], [(self._logs_path, "")]
        while waiting:
            path, log_id = waiting.pop()
            names = self._files.names(path)
            if log_id and self._is_log(names):
                found.append(log_id)
            else:
                waiting += [(path / name, f"{log_id}/{name}" if log_id else name) for name in names]
        return found

    @staticmethod
    def _is_log(names: list[str]) -> bool:
        return any(name == "reserved" or name.endswith(".log") for name in names)

    async def next_epoch(self) -> int:
        async with self._epoch_turn:
            return await self.writes.run(self._next_epoch)

    def _next_epoch(self) -> int:
        try:
            return self._epoch_file.next(self._highest_epoch)
        except OSError as error:
            raise storage_error("the epoch file", error) from error

    def _highest_epoch(self) -> int:
        """The highest epoch that a frame has, for when the file that counts them is lost."""
        highest = 0
        for log_id in self._find_logs():
            log = self._open_segment_log(log_id, LogOptions())
            highest = max(highest, log.tail.last_epoch)
            log.forget_files()
        return highest

    async def close(self) -> None:
        await self._flusher.stop()
        problems = [problem for problem in await bounded_gather(_close, list(self._logs.values())) if problem]
        for work in (self.writes, self.reads, self.background):
            work.close()
        if self._lock_fd >= 0:
            self._files.close(self._lock_fd)
            self._lock_fd = -1
        for problem in problems:
            raise problem

    def needs_flush(self, log: WriteBehind) -> None:
        self._dirty.add(log)

    def closed(self, log: LocalLog) -> None:
        self._logs.pop(log.log_id, None)

    async def flush(self) -> None:
        """Syncs every log that has written since the last time, many at once."""
        dirty, self._dirty = self._dirty, OrderedSet()
        await bounded_gather(_flush, dirty)

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.background.run(self.space.look)
            except OSError as error:
                _logger.warning("the free space of %s is not known: %s", self._root, error)
            await self.flush()


async def _close(log: LocalLog) -> Exception | None:
    try:
        await log.close()
    except Exception as problem:
        return problem
    return None


async def _flush(log: WriteBehind) -> None:
    try:
        await log.flush()
    except Exception:
        _logger.exception("a log could not be flushed")
