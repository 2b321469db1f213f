"""The file system calls Quiver uses. A test passes a Files that counts, fails or delays them."""

import ctypes
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

Buffer = bytes | bytearray | memoryview
IOV_MAX = 1024
_SYNC_FILE_RANGE_WRITE = 2
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
if _sync_file_range is not None:  # Linux has it, and Python's `os` does not
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
_SYNCFS_REPORTS_ERRORS = (5, 8)
"""Since this version of Linux."""


class Files:
    """Thin wrappers around `os`, one per call, so that a subclass can inject faults at any of them."""

    def open(self, path: Path, *, create: bool = False) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def open_readonly(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """One write call; may be short. At most IOV_MAX buffers."""
        return os.pwritev(fd, buffers, position)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return os.pread(fd, size, position)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def sync_file_system(self, path: Path) -> bool:
        """Makes everything durable that is on the file system of a directory, files and names. False where the
        system cannot do that, or would not tell of an error of the disk."""
        if _syncfs is None or not _tells_errors_of_syncfs():
            return False
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _syncfs(fd):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(fd)
        return True

    def start_writeback(self, fd: int, position: int, size: int) -> None:
        """Lets the disk begin with a range that will be synced soon. A hint: it promises nothing and reports nothing.

        An error of the disk is left to `fdatasync`, which reports it even if it happened before.
        """
        if _sync_file_range is not None:
            _sync_file_range(fd, position, size, _SYNC_FILE_RANGE_WRITE)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def path_size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """When the file was last written, according to the wall clock at that time."""
        return path.stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, time_ms: int) -> None:
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Makes creations, renames and removals in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, sorted; none when it does not exist."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def free_bytes(self, path: Path) -> int:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_bytes(self, path: Path) -> int:
        """Of the file system that a path is on."""
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize

    def read_file(self, path: Path) -> bytes:
        return path.read_bytes()

    def write_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replaces a small file as a whole: a reader sees the old content or the new, never a mix."""
        temporary = path.with_name(path.name + ".tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self.write_all(fd, [data], 0)
            if sync:
                self.fdatasync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(path.parent)

    def write_all(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Writes every byte, in as many calls as it takes; returns the position after the last one.

        Raises OSError if the file system accepts no more bytes; what was written before that stays in the file.
        """
        pending = [memoryview(b).cast("B") for b in buffers if len(b)]
        while pending:
            written = self.pwritev(fd, pending[:IOV_MAX], position)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            position += written
            while written:
                if written < len(pending[0]):
                    pending[0] = pending[0][written:]
                    break
                written -= len(pending.pop(0))
        return position

    def lock(self, path: Path, *, wait: bool = False) -> int:
        """Takes an exclusive lock on a file for this process and those that inherit the descriptor.

        Raises BlockingIOError if another process has it, or waits until that has given it back or is gone.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
        return fd


def _tells_errors_of_syncfs() -> bool:
    system = os.uname()
    found = re.match(r"(\d+)\.(\d+)", system.release)
    return (
        system.sysname == "Linux" and found is not None and (int(found[1]), int(found[2])) >= _SYNCFS_REPORTS_ERRORS
    )
