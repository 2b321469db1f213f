"""Which process has a TCP connection of this machine."""

import contextlib
import os
from pathlib import Path

_PROC = Path("/proc")


def owner_of(port: int) -> int | None:
    """The id of the process whose connection has this local port on 127.0.0.1; None if it is gone."""
    wanted = f"socket:[{inode}]" if (inode := _inode(f"0100007F:{port:04X}")) else None
    for process in _PROC.iterdir() if wanted else ():
        if process.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if any(os.readlink(link) == wanted for link in (process / "fd").iterdir()):
                    return int(process.name)
    return None


def _inode(place: str) -> str | None:
    for line in (_PROC / "net" / "tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == place and fields[9] != "0":
            return fields[9]
    return None
