"""What the machine gives a process: the file system below a path, files that may be open."""

import os
import re
import resource
from pathlib import Path
from typing import NamedTuple

_MOUNTS = Path("/proc/self/mountinfo")
_OPEN_FILES = Path("/proc/self/fd")
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""How the list of mounts writes a space, a tab, a line end and a backslash."""


class FileSystem(NamedTuple):
    kind: str
    """Such as ext4, xfs, tmpfs, overlay; empty when it is not known."""
    mount_point: str
    total_bytes: int
    free_bytes: int
    """What a process without special rights may still use."""


class OpenFileUse(NamedTuple):
    open: int
    limit: int


def file_system_of(path: Path) -> FileSystem:
    """The file system that holds a path; OSError when the path does not exist."""
    status = os.statvfs(path)
    kind, mount_point = _mount_of(path.resolve())
    return FileSystem(kind, mount_point, status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)


def open_file_use() -> OpenFileUse:
    """How many files and sockets this process has open, and how many it may."""
    try:
        count = len(os.listdir(_OPEN_FILES)) - 1  # the listing itself has one open
    except OSError:
        count = 0
    return OpenFileUse(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _mount_of(path: Path) -> tuple[str, str]:
    """The kind and the place of the mount with the longest name that the path begins with; the last one wins."""
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return "", ""
    found = ("", "")
    for line in lines:
        before, _, after = line.partition(" - ")
        mount_point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), before.split()[4])
        if path.is_relative_to(mount_point) and len(mount_point) >= len(found[1]):
            found = after.split()[0], mount_point
    return found
