"""The file that numbers the starts on a data directory: a number is on disk before it is used, none comes twice."""

import logging
from collections.abc import Callable
from pathlib import Path

import google_crc32c

from quiver.system.files import Files

_MARGIN = 1000  # starts that may have left no frame to show for them
_logger = logging.getLogger(__name__)


class StartEpochFile:
    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def next(self, highest_used: Callable[[], int]) -> int:
        """The next number. When the file is lost or damaged, counting goes on well above the highest one in use."""
        last = self._load()
        if last is None:
            used = highest_used()
            last = used + _MARGIN if used else 0
        text = f"{last + 1} "
        self._files.write_file(self._path, f"{text}{_crc(text)}\n".encode())
        return last + 1

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


def _crc(text: str) -> str:
    return f"{google_crc32c.value(text.encode()):08x}"
