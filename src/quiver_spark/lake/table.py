"""A lake: which files it has, and up to where each partition was archived.

The positions are marks of the table: `quiver:orders:7:0` is partition 0 of the topic with id 7, and its value is the
next offset. A commit adds files and moves positions atomically, or is refused because another one moved them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from quiver.model.errors import InvalidRequest, QuiverError, TransactionConflict
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.schema import LAKE_SCHEMA, TOPIC_ID, missing_columns
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import Store
from quiver_spark.lake.tables.table_format import Change, CommitConflict, LakeTable

_REPLACEMENTS = "quiver:replacements"
_LAST_VALUES = "quiver:last-values"


class Advance(NamedTuple):
    """A partition was archived from `start` (None: it never was) to below `stop`."""

    topic: str
    topic_id: int
    partition: int
    start: int | None
    stop: int


class Lake:
    """The table of a lake, and the store that its files are in."""

    def __init__(self, place: LakePlace, store: Store, table: LakeTable) -> None:
        self.place = place
        self.store = store
        self._table = table

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def layout(self) -> str:
        """The partition columns, as files of the lake have them."""
        return ",".join(self._table.partition_columns)

    def schema(self) -> pa.Schema:
        return self._table.schema()

    def file_schema(self, typed: pa.Schema | None = None) -> pa.Schema:
        """The columns of a new file: those of all messages, and typed ones."""
        names = [*LAKE_SCHEMA.names, *(typed.names if typed is not None else ())]
        return self._table.file_schema(names)

    def files(self) -> list[LakeFile]:
        """The files of the current version, by topic, partition, date and range."""
        return self._table.files()

    def topic_id(self, topic: str) -> int | None:
        """The id of the topic that was archived under a name; None when none was."""
        return self._table.mark(f"quiver:{topic}")

    def position(self, topic: str, topic_id: int, partition: int) -> int | None:
        """The next offset to archive; None when nothing of the partition was archived."""
        return self._table.mark(_position_mark(topic, topic_id, partition))

    def refresh(self) -> None:
        self._table.refresh()

    def commit(self, files: Sequence[LakeFile], advances: Sequence[Advance], about: Mapping[str, Any]) -> None:
        """Adds files and moves positions, atomically. Raises TransactionConflict if another run moved them first."""
        self._check_there(files)
        self.refresh()
        for step in advances:
            if self.position(step.topic, step.topic_id, step.partition) != step.start:
                self._discard(files)
                raise _conflict(f"{step.topic}-{step.partition}")
        before = {_position_mark(*step[:3]): step.start for step in advances}
        marks = {_position_mark(*step[:3]): step.stop for step in advances}
        topics = {step.topic: step.topic_id for step in advances}
        # Runs over different partitions of a topic do not conflict: its id is set once.
        marks |= {f"quiver:{name}": number for name, number in topics.items() if self.topic_id(name) != number}
        self._write(Change(files, (), marks, before, about), ", ".join(sorted(topics)))

    def replace(
        self,
        old: Sequence[LakeFile],
        new: Sequence[LakeFile],
        about: Mapping[str, Any],
        *,
        last_values_of: str | None = None,
    ) -> None:
        """Replaces files by others with the same messages, or by the last values of a topic.

        Raises TransactionConflict if somebody else did at the same time: all replacements count up one mark.
        """
        self._check_there(new)
        self.refresh()
        there = {file.path for file in self.files()}
        if not {file.path for file in old} <= there:
            self._discard(new)
            raise _conflict("the files of the lake")
        count = self._table.mark(_REPLACEMENTS)
        marks = {_REPLACEMENTS: (count or 0) + 1}
        if last_values_of is not None:
            marks[f"{_LAST_VALUES}:{last_values_of}"] = 1
        change = Change(new, old, marks, {_REPLACEMENTS: count}, about, changes_rows=last_values_of is not None)
        self._write(change, "the files of the lake")

    def check_last_values(self, topic: str) -> None:
        """Raises InvalidRequest if the lake has the archive of a topic, which last values would replace."""
        if self.topic_id(topic) is not None:
            raise InvalidRequest(
                problem=f"the lake in {self.place} has the archive of {topic!r}: choose another for its last values"
            )

    def check_archive(self, topic: str) -> None:
        """Raises InvalidRequest if the lake has the last values of a topic, which its archive would be mixed up
        with."""
        if self._table.mark(f"{_LAST_VALUES}:{topic}") is not None:
            raise InvalidRequest(
                problem=f"the lake in {self.place} has the last values of {topic!r}: choose another for its archive"
            )

    def put_last_values(self, topic: str, files: Sequence[LakeFile], about: Mapping[str, Any]) -> None:
        """Replaces everything that the lake has of a topic."""
        self.refresh()
        old = [file for file in self.files() if file.topic == topic]
        self.replace(old, files, about, last_values_of=topic)

    def add_columns(self, columns: pa.Schema) -> None:
        """Those of them that the table does not have yet. Raises InvalidRequest if it has one of another type."""
        missing = missing_columns(self.schema(), columns)
        if len(missing):
            self._table.add_columns(missing)

    def add_topic_ids(self) -> None:
        """Gives a lake of an earlier version the column for them: to be called before files are written."""
        self.add_columns(pa.schema([TOPIC_ID]))

    def vacuum(self, age_hours: int, *, dry_run: bool = False) -> list[str]:
        """Removes files that do not count and are older than that: replaced ones, and those of runs that failed."""
        return self._table.vacuum(age_hours, dry_run=dry_run)

    def _write(self, change: Change, what: str) -> None:
        """After a conflict the new files are removed. After any other error it is unknown whether they count: they
        stay, and `vacuum` removes them if they do not.

        A store that completes a request and loses the response makes a commit look refused or failed. So the table
        is asked again before anything else is believed.
        """
        try:
            self._table.write(change)
        except CommitConflict:
            self.refresh()
            if not self._counts(change):
                self._discard(change.added)
                raise _conflict(what) from None
        except QuiverError as error:
            try:
                self.refresh()
            except QuiverError:
                raise error from None
            if not self._counts(change):
                raise

    def _counts(self, change: Change) -> bool:
        """Whether a change is in the table. No two attempts write files of the same name."""
        if change.added:
            return {file.path for file in change.added} <= {file.path for file in self.files()}
        return all(self._table.mark(name) == value for name, value in change.marks.items())

    def _check_there(self, files: Sequence[LakeFile]) -> None:
        """Raises InvalidRequest if workers have written where the driver does not see it."""
        for path in self.store.missing(file.path for file in files):
            raise InvalidRequest(
                problem=f"the workers wrote {path}, which is not in {self.place} here: the lake must be a directory"
                " that the driver and all workers share under the same path, or in an object store"
            )

    def _discard(self, files: Sequence[LakeFile]) -> None:
        for file in files:
            self.store.remove(file.path)


def _position_mark(topic: str, topic_id: int, partition: int) -> str:
    return f"quiver:{topic}:{topic_id}:{partition}"


def _conflict(what: str) -> TransactionConflict:
    return TransactionConflict(
        f"another run changed {what} in the lake at the same time and was first; this run added nothing, so nothing"
        " is missing or duplicated: run it again to continue"
    )
