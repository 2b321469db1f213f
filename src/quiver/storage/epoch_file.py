"""The file that numbers epochs: each number is on disk before it is used, and none comes twice."""

from pathlib import Path

import google_crc32c

from quiver.model.errors import CorruptData
from quiver.system.files import Files


class EpochFile:
    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def next(self) -> int:
        epoch = self._load() + 1
        text = f"{epoch} "
        self._files.write_file(self._path, f"{text}{google_crc32c.value(text.encode()):08x}\n".encode())
        return epoch

    def _load(self) -> int:
        try:
            content = self._files.read_file(self._path)
        except FileNotFoundError:
            return 0
        number, _, crc = content.decode(errors="replace").partition(" ")
        if not number.isdigit() or crc != f"{google_crc32c.value(f'{number} '.encode()):08x}\n":
            raise CorruptData(where=str(self._path), problem="the epoch is unreadable", next_offset=0)
        return int(number)
