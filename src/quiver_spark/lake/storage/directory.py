"""A lake in a directory that the driver and all workers see under the same path."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from quiver.model.limits import MIB
from quiver.system.files import Files
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import Output, StoredFile

_BUFFER_BYTES = MIB
_FILES = Files()


class DirectoryOutput:
    def __init__(self, root: Path, path: str) -> None:
        self._root = root
        self._path = root / f"{path}.new"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = self._path.open("wb", buffering=_BUFFER_BYTES)

    @property
    def stream(self) -> BinaryIO:
        return self._stream

    def flush(self) -> None:
        """After each row group: syncing a whole file at the end takes much longer."""
        self._stream.flush()
        _FILES.fdatasync(self._stream.fileno())

    def finish(self, path: str) -> int:
        self.flush()
        self._stream.close()
        size = self._path.stat().st_size
        self._path.rename(self._root / path)
        return size

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # a full disk may be the reason for giving up
            self._stream.close()
        self._path.unlink(missing_ok=True)


class DirectoryStore:
    def __init__(self, place: LakePlace) -> None:
        self._root = Path(place.uri)

    def create(self, path: str) -> Output:
        return DirectoryOutput(self._root, path)

    def source(self, path: str) -> Any:
        return str(self._root / path)

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes) -> None:
        target = self._root / path
        _FILES.make_directory(target.parent)
        _FILES.write_file(target, content)

    def missing(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if not (self._root / path).is_file()]

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def files(self) -> Iterator[StoredFile]:
        for path in self._root.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # removed by somebody else meanwhile
                if path.is_file():
                    found = path.stat()
                    name = path.relative_to(self._root).as_posix()
                    yield StoredFile(name, found.st_size, found.st_mtime_ns // 1_000_000)

    def make_names_durable(self, paths: Iterable[str]) -> None:
        parents = {parent for path in paths for parent in (self._root / path).parents}
        for directory in parents:
            if directory.is_relative_to(self._root):
                _FILES.sync_directory(directory)
