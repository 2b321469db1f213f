"""What the lake needs of the place where its files are. Paths are below the root of the lake, with slashes."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from quiver_spark.lake.storage.place import LakePlace


class StoredFile(NamedTuple):
    path: str
    size_bytes: int
    modified_ms: int


class Output(Protocol):
    """A file that is being written. Nobody sees it under its name before `finish`."""

    @property
    def stream(self) -> Any:
        """For Arrow to write to."""
        ...

    def flush(self) -> None:
        """What was written so far becomes durable, if that makes `finish` faster."""
        ...

    def finish(self, path: str) -> int:
        """The file is there under a name, and durable. Returns its size in bytes."""
        ...

    def abandon(self) -> None:
        """Removes what was written."""
        ...


class Store(Protocol):
    def create(self, path: str) -> Output:
        """A file that will probably be finished under this name."""
        ...

    def source(self, path: str) -> Any:
        """A file for Arrow to read. Raises FileNotFoundError, or OSError if it cannot be opened."""
        ...

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None if there is none."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Creates or replaces a small file, durably and as a whole."""
        ...

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that are no files."""
        ...

    def remove(self, path: str) -> None:
        """Does nothing if there is no such file."""
        ...

    def files(self) -> Iterator[StoredFile]:
        """All files, at every depth."""
        ...

    def make_names_durable(self, paths: Iterable[str]) -> None:
        """After files were finished: their names outlast a loss of power."""
        ...


def open_store(place: LakePlace) -> Store:
    if place.is_local:
        from quiver_spark.lake.storage.directory import DirectoryStore

        return DirectoryStore(place)
    from quiver_spark.lake.storage.objects import ObjectStore

    return ObjectStore(place)
