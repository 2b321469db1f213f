"""What this process takes of its machine, and what is left."""

import contextlib
from pathlib import Path
from typing import NamedTuple

from quiver.system.files import Files

_PAGE_BYTES = 4096
_OWN_MEMORY = Path("/proc/self/statm")
_MACHINE_MEMORY = Path("/proc/meminfo")
_GROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")


class Memory(NamedTuple):
    used_bytes: int
    limit_bytes: int
    """The machine's memory, or that of the process's control group if that is less."""


class Disk(NamedTuple):
    free_bytes: int
    total_bytes: int


class Machine:
    """Calls may block for a moment: they belong into a thread."""

    def __init__(self, files: Files, data_dir: Path | None) -> None:
        self._files = files
        self._data_dir = data_dir

    def memory(self) -> Memory:
        used = int(self._files.read_file(_OWN_MEMORY).split()[1]) * _PAGE_BYTES
        limit = int(self._files.read_file(_MACHINE_MEMORY).split()[1]) * 1024
        with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit
            limit = min(limit, int(self._files.read_file(_GROUP_MEMORY)))
        return Memory(used, limit)

    def disk(self) -> Disk | None:
        """None if no data directory is watched."""
        if self._data_dir is None:
            return None
        return Disk(self._files.free_bytes(self._data_dir), self._files.total_bytes(self._data_dir))
