"""The file system calls of one process, on a simulated disk. After `kill` nothing works any more."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from quiver.log.files.found_logs import FEW
from quiver.system.clock import Clock
from quiver.system.files import Buffer, Files
from quiver.testing.files import Killed
from quiver.testing.simulation.system.disk import Directory, Disk, Inode

_FIRST_FD = 10_000
FEW_LOGS = FEW
"""A start that finds more syncs the whole file system."""


class SimulatedFiles(Files):
    """`on_kill` is called when the operation comes that `kill_after` has chosen to be the last."""

    def __init__(self, disk: Disk, clock: Clock, on_kill: Callable[[], None]) -> None:
        self._disk, self._clock = disk, clock
        self._open: dict[int, Inode] = {}
        self._last_fd = _FIRST_FD
        self._is_dead = False
        self._left: int | None = None
        self._on_kill = on_kill

    def kill(self) -> None:
        self._is_dead = True

    def kill_after(self, operations: int) -> None:
        """The process ends within one of the next operations that change files."""
        self._left = operations

    def _check(self) -> None:
        if self._is_dead:
            raise Killed

    def _is_last(self) -> bool:
        self._check()
        if self._left is None:
            return False
        self._left -= 1
        return self._left <= 0

    def _step(self) -> None:
        if self._is_last():
            self._end()

    def _end(self) -> None:
        self._is_dead = True
        self._on_kill()
        raise Killed

    def _check_health(self) -> None:
        if self._disk.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _check_room(self) -> None:
        if self._disk.room_bytes == 0:
            raise _no_space()

    def _inode(self, fd: int) -> Inode:
        self._check()
        found = self._open.get(fd)
        if found is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return found

    def _new_fd(self, inode: Inode) -> int:
        self._last_fd += 1
        self._open[self._last_fd] = inode
        return self._last_fd

    def open(self, path: Path, *, create: bool = False) -> int:
        self._check()
        parent = self._disk.directory(path.parent)
        found = parent.names.get(path.name)
        if found is None and create:
            self._step()
            self._check_room()
            found = parent.names[path.name] = Inode(self._clock.now_ms())
        if isinstance(found, Directory):
            raise IsADirectoryError(str(path))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._new_fd(found)

    def open_readonly(self, path: Path) -> int:
        self._check()
        return self._new_fd(self._disk.file(path))

    def close(self, fd: int) -> None:
        if not self._is_dead:
            self._inode(fd)
            del self._open[fd]

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        inode = self._inode(fd)
        self._check_health()
        data = b"".join(buffers)
        is_last = self._is_last()
        if is_last:
            data = data[: len(data) // 2]
        within = min(len(data), max(0, len(inode.data) - position))
        data = data[: within + self._disk.grow(len(data) - within)]
        if buffers and not data and not is_last:
            raise _no_space()
        inode.write(data, position)
        inode.modified_ms = self._clock.now_ms()
        if is_last:
            self._end()
        return len(data)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return bytes(self._inode(fd).data[position : position + size])

    def fdatasync(self, fd: int) -> None:
        inode = self._inode(fd)
        self._check_health()
        self._step()
        inode.sync()

    def sync_file_system(self, path: Path) -> bool:
        self._check()
        self._check_health()
        self._step()
        self._disk.sync()
        return True

    def start_writeback(self, fd: int, position: int, size: int) -> None:
        self._inode(fd)

    def truncate(self, fd: int, size: int) -> None:
        inode = self._inode(fd)
        self._step()
        inode.truncate(size)
        inode.modified_ms = self._clock.now_ms()

    def size(self, fd: int) -> int:
        return len(self._inode(fd).data)

    def path_size(self, path: Path) -> int:
        self._check()
        return len(self._disk.file(path).data)

    def modified_ms(self, path: Path) -> int:
        self._check()
        return self._disk.file(path).modified_ms

    def set_modified_ms(self, path: Path, time_ms: int) -> None:
        self._check()
        self._disk.file(path).modified_ms = time_ms

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        names = self._disk.directory(source.parent).names
        if source.name not in names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self._disk.directory(target.parent).names[target.name] = names.pop(source.name)

    def remove(self, path: Path) -> None:
        self._step()
        self._disk.directory(path.parent).names.pop(path.name, None)

    def remove_tree(self, path: Path) -> None:
        """Durable at once, as in `quiver.testing.power_cut`."""
        self._step()
        try:
            self._disk.directory(path.parent).forget(path.name)
        except FileNotFoundError:
            return

    def make_directory(self, path: Path) -> None:
        self._check()
        found = self._disk.root
        for name in path.parts[1:]:
            if name not in found.names:
                self._step()
                self._check_room()
                found.names[name] = Directory()
            below = found.names[name]
            if not isinstance(below, Directory):
                raise FileExistsError(str(path))
            found = below

    def sync_directory(self, path: Path) -> None:
        self._step()
        self._disk.directory(path).sync()

    def names(self, path: Path) -> list[str]:
        self._check()
        try:
            return sorted(self._disk.directory(path).names)
        except FileNotFoundError:
            return []

    def free_bytes(self, path: Path) -> int:
        self._check()
        return self._disk.free_bytes

    def read_file(self, path: Path) -> bytes:
        self._check()
        return bytes(self._disk.file(path).data)

    def write_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        temporary = path.with_name(path.name + ".tmp")
        fd = self.open(temporary, create=True)
        try:
            self.truncate(fd, 0)
            self.write_all(fd, [data], 0)
            if sync:
                self.fdatasync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(path.parent)

    def lock(self, path: Path, *, wait: bool = False) -> int:
        """The process before is gone, or the simulation has a fault: nobody else holds it."""
        return self.open(path, create=True)


def _no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
