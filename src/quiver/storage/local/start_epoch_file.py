"""The file that numbers the starts on a data directory: a number is on disk before it is used, none comes twice.

Several workers may start at the same time, so whoever changes the file holds a lock of its own.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c

from quiver.model.errors import CorruptData
from quiver.system.files import Files

_MARGIN = 1000  # starts that may have left no frame to show for them
_LOST = "it is lost or damaged, and other workers use the logs that tell the highest number; start the broker again"
_logger = logging.getLogger(__name__)


class StartEpochFile:
    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def ensure(self, highest_used: Callable[[], int]) -> None:
        """Makes sure that the file can be read. When it is lost or damaged, counting goes on well above the highest
        number in use."""
        with self._locked():
            if self._load() is None:
                self._save(_above(highest_used()))

    def next(self, highest_used: Callable[[], int] | None = None) -> int:
        """The next number. Without `highest_used`, CorruptData when the file cannot be read."""
        with self._locked():
            last = self._load()
            if last is None:
                if highest_used is None:
                    raise CorruptData(where=self._path, problem=_LOST, next_offset=0)
                last = _above(highest_used())
            self._save(last + 1)
        return last + 1

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fd = self._files.lock(self._path.with_name(self._path.name + ".lock"), wait=True)
        try:
            yield
        finally:
            self._files.close(fd)

    def _save(self, number: int) -> None:
        text = f"{number} "
        self._files.write_file(self._path, f"{text}{_crc(text)}\n".encode())

    def _load(self) -> int | None:
        try:
            content = self._files.read_file(self._path).decode(errors="replace")
        except FileNotFoundError:
            return None
        number, _, crc = content.partition(" ")
        if number.isdecimal() and crc == f"{_crc(f'{number} ')}\n":
            return int(number)
        _logger.warning("%s is damaged; the logs are asked for the highest epoch", self._path)
        return None


def _above(used: int) -> int:
    return used + _MARGIN if used else 0


def _crc(text: str) -> str:
    return f"{google_crc32c.value(text.encode()):08x}"
