"""Appends that go to the local buffer while the database is away."""

import logging
from pathlib import Path

from quiver.log.files.write_error import is_lack_of_room
from quiver.model.errors import StorageUnavailable
from quiver.storage.postgres.appending.pending import PendingAppend
from quiver.storage.postgres.buffering.buffer_file import BufferedAppend, BufferFile, BufferHeader, record_bytes
from quiver.system.files import Files
from quiver.system.randomness import Randomness
from quiver.system.threads import ThreadPool

logger = logging.getLogger(__name__)

_HEADER_BYTES = 1024


class PublishBuffer:
    """`submit` writes and syncs in a thread; whatever comes meanwhile shares the next write. One event loop."""

    def __init__(self, directory: Path, max_bytes: int, randomness: Randomness, files: Files | None = None) -> None:
        self._file = BufferFile(directory, files)
        self._max_bytes = max_bytes
        self._randomness = randomness
        self._threads = ThreadPool(1, "buffer")
        self._installation = ""
        self._waiting: list[PendingAppend] = []
        self._writing: list[PendingAppend] = []
        self._waiting_bytes = 0
        self._is_held = False
        self.is_shared = False
        """Others use the database too: nothing is put into it."""
        self.message_count = 0
        """Messages that this process has put into it and that are not in the database yet."""
        self.buffered_total = 0
        """The same since the start, with those that are."""
        self.failure: str | None = None

    async def open(self, installation: str) -> None:
        """Finds what an earlier process has left. Raises OSError, UnsupportedVersion and InvalidSetting."""
        self._installation = installation
        await self._threads.run(self._file.open)

    @property
    def header(self) -> BufferHeader | None:
        """None while there is no file."""
        return self._file.header

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes + self._waiting_bytes

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    @property
    def problem(self) -> str | None:
        """Why nothing more can be buffered."""
        if self.failure is not None:
            return f"the local buffer failed: {self.failure}"
        if self.is_shared:
            return "the local buffer is for a broker that has the database to itself, and there are others"
        if self.size_bytes >= self._max_bytes:
            return f"the local buffer is full: {self.size_bytes} bytes"
        return None

    @property
    def is_busy(self) -> bool:
        return bool(self._writing)

    # writing

    def submit(self, pending: PendingAppend) -> None:
        """Raises StorageUnavailable, with nothing changed, when there is no room."""
        size = record_bytes(pending.state.log_id, pending.append.size_bytes)
        if self.problem is not None:
            raise StorageUnavailable(problem=self.problem)
        if self.size_bytes + size + _HEADER_BYTES > self._max_bytes:
            raise StorageUnavailable(
                problem=f"the local buffer is full: {self.size_bytes} of {self._max_bytes} bytes"
            )
        self._waiting.append(pending)
        self._waiting_bytes += size
        self._start()

    def _start(self) -> None:
        if self._writing or not self._waiting or self._is_held:
            return
        self._writing, self._waiting = self._waiting, []
        self._threads.begin(self._write, self._written)

    def _write(self) -> None:
        """In the thread."""
        if self._file.header is None:
            self._file.create(BufferHeader(1, self._randomness.token(16), self._installation))
        self._file.append([(pending.state.log_id, pending.append.stored) for pending in self._writing])

    def _written(self, error: BaseException | None) -> None:
        ended, self._writing = self._writing, []
        for pending in ended:
            self._waiting_bytes -= record_bytes(pending.state.log_id, pending.append.size_bytes)
            if error is not None:
                problem = f"the local buffer cannot be written: {error}"
                pending.end(None, StorageUnavailable(problem=problem))
                continue
            count = sum(frame.header.message_count for frame in pending.append.frames)
            self.message_count += count
            self.buffered_total += count
            pending.append.is_buffered = True
            pending.end(pending.append, None)
        if error is not None:
            logger.warning("%s: %s", self._file.path, error)
            if not isinstance(error, OSError) or not is_lack_of_room(error):  # a failed sync is final
                self.failure = str(error)
        self._start()

    # replaying

    @property
    def end_position(self) -> int:
        return self._file.size_bytes

    async def read(self, position: int) -> list[BufferedAppend]:
        return await self._threads.run(self._file.read, position)

    def hold(self) -> None:
        """What is submitted from now on waits in memory."""
        self._is_held = True

    def release(self) -> list[PendingAppend]:
        """Ends `hold` after everything was replayed: what waits is for the database."""
        self._is_held = False
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return waiting

    def resume(self) -> None:
        """Ends `hold` because the database is gone again: what waits is written."""
        self._is_held = False
        self._start()

    async def remove(self) -> None:
        """Everything is in the database."""
        await self._threads.run(self._file.remove)
        self.message_count = 0

    def close(self) -> None:
        self._threads.close()
        self._file.close()
