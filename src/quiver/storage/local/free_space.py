"""Writes are refused before the disk is full, and resume by themselves when there is room again."""

from pathlib import Path

from quiver.model.errors import DiskFull
from quiver.model.limits import MIB
from quiver.system.files import Files

_NEAR_BYTES = 64 * MIB


class FreeSpace:
    """Knows what was free at the last look; looks again when that is used up, and every time when it nearly is.

    Of several workers on one disk, each looks again when its share is used up.
    """

    def __init__(self, path: Path, files: Files, min_free_bytes: int, workers: int = 1) -> None:
        self._path = path
        self._files = files
        self._min_free_bytes = min_free_bytes
        self._workers = workers
        self._left = -1
        self._free = 0

    @property
    def problem(self) -> str | None:
        if self._left >= 0:
            return None
        return (
            f"{self._free // MIB} MiB are free on the disk of {self._path}, "
            f"at least {self._min_free_bytes // MIB} MiB are kept free"
        )

    def look(self) -> None:
        """Asks the file system."""
        self._free = self._files.free_bytes(self._path)
        self._left = (self._free - self._min_free_bytes) // self._workers

    def take(self, size: int) -> None:
        """Counts bytes that are about to be written; DiskFull when they would leave too little."""
        if size + _NEAR_BYTES > self._left:
            self.look()
            if size > self._free - self._min_free_bytes:
                self._left = min(self._left, -1)
                raise DiskFull(problem=self.problem)
        self._left -= size
