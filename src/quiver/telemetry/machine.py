"""What this process takes of its machine, and what is left."""

import contextlib
import os
import resource
from pathlib import Path
from typing import NamedTuple

from quiver.system.files import Files

_PAGE_BYTES = 4096
_OWN_FILES = Path("/proc/self/fd")
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


class Process(NamedTuple):
    cpu_seconds: float
    resident_bytes: int
    virtual_bytes: int
    open_files: int
    max_open_files: int


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

    def process(self) -> Process:
        pages = self._files.read_file(_OWN_MEMORY).split()
        times = os.times()
        return Process(
            times.user + times.system,
            int(pages[1]) * _PAGE_BYTES,
            int(pages[0]) * _PAGE_BYTES,
            len(os.listdir(_OWN_FILES)),
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )

    def disk(self) -> Disk | None:
        """None if no data directory is watched."""
        if self._data_dir is None:
            return None
        return Disk(self._files.free_bytes(self._data_dir), self._files.total_bytes(self._data_dir))
