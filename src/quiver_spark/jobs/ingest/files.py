"""Which files are to be read, and in which batches. Pure but for the listing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.limits import MIB

FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".txt": "text",
    ".log": "text",
}
"""By the ending of a name; `.gz`, `.zst` and the like may follow, as Spark reads them."""
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")
BATCH_BYTES = 256 * MIB
BATCH_FILES = 1_000
CHANGED = ("error", "skip", "again")
"""What to do with a file that was read before and is another one now."""


class SourceFile(NamedTuple):
    path: str
    size_bytes: int
    mtime_ns: int
    format: str

    @property
    def version(self) -> str:
        """Another one whenever the file was written again."""
        return f"{self.size_bytes}-{self.mtime_ns}"


def found_files(places: Sequence[str], format_: str | None = None) -> list[SourceFile]:
    """All files in the places: files, directories with all that is in them, or patterns such as /in/*.json.

    Names that begin with . or _ and those that end with .tmp are left out: others may still write them. Raises
    InvalidRequest if a place has none, or if a name does not say what is in it.
    """
    found: dict[str, SourceFile] = {}
    for place in places:
        paths = sorted(_expanded(Path(place.removeprefix("file://"))))
        if not paths:
            raise InvalidRequest(problem=f"there is no file {place}")
        for path in paths:
            known = path.stat()
            resolved = str(path.resolve())
            found[resolved] = SourceFile(resolved, known.st_size, known.st_mtime_ns, format_ or _format(path))
    return sorted(found.values())


def _expanded(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    root, pattern = (place, "**/*") if place.is_dir() else _pattern(place)
    for path in root.glob(pattern):
        names = path.relative_to(root).parts
        if path.is_file() and not any(name.startswith((".", "_")) for name in names) and path.suffix != ".tmp":
            yield path


def _pattern(place: Path) -> tuple[Path, str]:
    """The directory before the first part with a wildcard, and the rest."""
    parts = place.absolute().parts
    first = next((n for n, part in enumerate(parts) if any(mark in part for mark in "*?[")), len(parts) - 1)
    return Path(*parts[:first]), str(Path(*parts[first:]))


def _format(path: Path) -> str:
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    found = FORMATS.get(Path(name).suffix)
    if found is None:
        raise InvalidRequest(problem=f"{path}: name its format (json, csv, parquet, text), as its ending does not")
    return found


def remaining(files: Iterable[SourceFile], done: Mapping[str, str], changed: str) -> list[SourceFile]:
    """Those that were not read yet. `done` has the version of each that was."""
    left = []
    for file in files:
        if done.get(file.path) == file.version:
            continue
        if file.path in done and changed == "error":
            raise InvalidRequest(
                problem=f"{file.path} was changed since it was ingested: write new rows into new files, or choose"
                " --changed skip or --changed again"
            )
        if file.path not in done or changed == "again":
            left.append(file)
    return left


def batches(
    files: Iterable[SourceFile], most_bytes: int = BATCH_BYTES, most_files: int = BATCH_FILES
) -> Iterator[list[SourceFile]]:
    """Files of one format at a time, as many as make a commit."""
    batch: list[SourceFile] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.format, file.path)):
        is_full = size + file.size_bytes > most_bytes or len(batch) >= most_files
        if batch and (is_full or batch[0].format != file.format):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size_bytes
    if batch:
        yield batch
