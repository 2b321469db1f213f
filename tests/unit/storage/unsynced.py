"""Files for checks after a crash: nothing is to be lost any more, so nothing waits for the disk."""

from pathlib import Path

from quiver.system.files import Files


class Unsynced(Files):
    def fdatasync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass
