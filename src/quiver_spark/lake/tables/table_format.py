"""What the lake needs of a table format: files, columns, and marks that change in the same commit as the files."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from quiver_spark.lake.files import LakeFile


class Change(NamedTuple):
    """One commit. It is refused if a mark is not what it was when the change was made."""

    added: Sequence[LakeFile]
    removed: Sequence[LakeFile]
    marks: Mapping[str, int]
    """New values."""
    before: Mapping[str, int | None]
    """What they were."""
    about: Mapping[str, Any]
    changes_rows: bool = True
    """False: the added files have the rows of the removed ones."""


class CommitConflict(Exception):
    """A commit was refused because of another one; nothing of it counts. Unless the store completed the commit and
    its response was lost: then the repeated request meets its own commit."""


class LakeTable(Protocol):
    format: str
    partition_columns: tuple[str, ...]

    def version(self) -> int:
        """Grows with each commit."""
        ...

    def schema(self) -> pa.Schema:
        """All columns, partition columns too."""
        ...

    def file_schema(self, names: Sequence[str]) -> pa.Schema:
        """What files have that are written with these columns of the table."""
        ...

    def files(self) -> list[LakeFile]:
        """The files of the current version, in any order."""
        ...

    def mark(self, name: str) -> int | None: ...

    def refresh(self) -> None:
        """Takes notice of what others committed."""
        ...

    def write(self, change: Change) -> None:
        """Raises CommitConflict if a mark has changed, or a removed file is not there any more."""
        ...

    def add_columns(self, columns: pa.Schema) -> None:
        """Columns that the table does not have."""
        ...

    def vacuum(self, age_hours: int, *, dry_run: bool) -> list[str]:
        """Removes files that do not count and are older than that; returns their paths."""
        ...


def in_order(files: Sequence[LakeFile]) -> list[LakeFile]:
    """By topic, partition, date and range."""
    return sorted(files, key=lambda file: (file.topic, file.partition, file.date, file.topic_id or 0, file.start))
