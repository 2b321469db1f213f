"""Files that fail: the n-th operation, or everything from it on, as if the process had been killed there."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Literal

from quiver.system.files import Buffer, Files

FaultKind = Literal["error", "no_space", "short_write", "kill"]


class Killed(BaseException):
    """The process ends here. Not an Exception, so that nothing cleans up after it."""


class FailingFiles(Files):
    """Counts operations that change files, and fails one of them.

    `fail_at` is the number of the operation, from 1; None counts only. `kind` says how: `error` is EIO, `no_space` is
    ENOSPC, `short_write` writes a part and then has no space, `kill` writes a part and then nothing works any more.
    `operations` holds the names of those seen so far.
    """

    def __init__(self, fail_at: int | None = None, kind: FaultKind = "error") -> None:
        self.fail_at = fail_at
        self.kind = kind
        self.operations: list[str] = []
        self._is_dead = False
        self._lock = Lock()

    def _count(self, name: str) -> bool:
        """Whether this operation is the one to fail."""
        with self._lock:
            if self._is_dead:
                raise Killed
            self.operations.append(name)
            if len(self.operations) != self.fail_at:
                return False
            self._is_dead = self.kind == "kill"
            return True

    def _fail(self) -> None:
        if self.kind == "kill":
            raise Killed
        code = errno.EIO if self.kind == "error" else errno.ENOSPC
        raise OSError(code, os.strerror(code))

    def _step(self, name: str) -> None:
        if self._count(name):
            self._fail()

    def open(self, path: Path, *, create: bool = False) -> int:
        if create and not path.exists():
            self._step("create")
        elif self._is_dead:
            raise Killed
        return super().open(path, create=create)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if not self._count("pwritev"):
            return super().pwritev(fd, buffers, position)
        if self.kind in ("short_write", "kill"):
            data = b"".join(buffers)
            super().pwritev(fd, [data[: len(data) // 2]], position)
        if self.kind == "short_write":
            self.fail_at = len(self.operations) + 1
            self.kind = "no_space"
            return len(data) // 2
        self._fail()
        raise AssertionError

    def fdatasync(self, fd: int) -> None:
        self._step("fdatasync")

    def sync_file_system(self, path: Path) -> bool:
        self._step("sync_file_system")
        return True

    def truncate(self, fd: int, size: int) -> None:
        self._step("truncate")
        super().truncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step("remove")
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        self._step("make_directory")
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._step("sync_directory")
