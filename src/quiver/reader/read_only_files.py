"""Files that belong to somebody else: nothing is changed, locked or repaired."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from quiver.system.files import Buffer, Files


class ReadOnlyFiles(Files):
    """Opens every file for reading only, and refuses to write."""

    def open(self, path: Path, *, create: bool = False) -> int:
        return self.open_readonly(path)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        raise _refused()

    def truncate(self, fd: int, size: int) -> None:
        raise _refused()

    def rename(self, source: Path, target: Path) -> None:
        raise _refused()

    def remove(self, path: Path) -> None:
        raise _refused()

    def remove_tree(self, path: Path) -> None:
        raise _refused()

    def make_directory(self, path: Path) -> None:
        raise _refused()

    def write_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        raise _refused()

    def lock(self, path: Path, *, wait: bool = False) -> int:
        raise _refused()


def _refused() -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS))
