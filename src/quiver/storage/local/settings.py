"""What a local storage is opened with: its limits, and the system it runs on."""

import contextlib
import resource
from typing import NamedTuple

from quiver.log.files.found_logs import FEW
from quiver.model.limits import MIB
from quiver.storage.compactor import NewCompactor, ThreadCompactor
from quiver.system.clock import Clock, SystemClock
from quiver.system.files import Files
from quiver.system.randomness import Randomness, SystemRandomness
from quiver.system.threads import NewThreads, ThreadPool

MIN_FREE_BYTES = 256 * MIB
_MANY_FILES = 1 << 20


class LocalSettings(NamedTuple):
    max_open_files: int | None = None
    """None: most of what the process may open."""
    min_free_bytes: int = MIN_FREE_BYTES
    sync_threads: int = 8
    wal_file_bytes: int = 64 * MIB
    few_logs: int = FEW
    """At a start so many are synced one by one."""
    worker: int = 0
    workers: int = 1
    """How many processes use the directory, each with logs of its own."""
    lock_fd: int = -1
    """The lock of the directory, if another process has taken it for this one and has prepared the directory."""


class LocalSystem(NamedTuple):
    """What tests and the simulator replace."""

    files: Files = Files()
    clock: Clock = SystemClock()
    randomness: Randomness = SystemRandomness()
    new_threads: NewThreads = ThreadPool
    new_compactor: NewCompactor = ThreadCompactor


DEFAULT_SETTINGS = LocalSettings()
DEFAULT_SYSTEM = LocalSystem()


def default_max_open_files() -> int:
    """Three quarters of what the process may open, after raising its limit; the rest is for sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    limit = _MANY_FILES if soft == resource.RLIM_INFINITY else min(soft, _MANY_FILES)
    return max(64, limit * 3 // 4)
