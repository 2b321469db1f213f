"""The Delta table of a lake: which files it has, and up to where each partition was archived.

Delta's application transactions hold the positions: `quiver:orders:7:0` is partition 0 of the topic with id 7, and
its version is the next offset. A commit adds files and moves positions atomically. Two commits that move the same
position from the same snapshot conflict, and the table refuses the second.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from quiver.model.errors import InvalidRequest, QuiverError, TransactionConflict
from quiver.system.clock import SystemClock
from quiver_spark.lake.files import LakeFile, file_of
from quiver_spark.lake.schema import LAKE_SCHEMA, OLDEST_SCHEMA, PARTITION_COLUMNS, TOPIC_ID, missing_columns

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

_COMPACTIONS = "quiver:replacements"
_LAST_VALUES = "quiver:last-values"
_CONFLICTS = ("Concurrent transaction failed", "Metadata changed since last commit")


class Advance(NamedTuple):
    """A partition was archived from `start` (None: it never was) to below `stop`."""

    topic: str
    topic_id: int
    partition: int
    start: int | None
    stop: int


class Lake:
    """A lake in a directory that the driver and all workers see under the same path."""

    def __init__(self, root: Path, table: "DeltaTable") -> None:
        self.root = root
        self._table = table

    @property
    def version(self) -> int:
        return self._table.version()

    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def files(self) -> list[LakeFile]:
        """The files of the current version, by topic, partition, date and range."""
        actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return sorted(
            (file_of(action["path"], action) for action in actions),
            key=lambda file: (file.topic, file.partition, file.date, file.topic_id or 0, file.start),
        )

    def topic_id(self, topic: str) -> int | None:
        """The id of the topic that was archived under a name; None when none was."""
        return self._table.transaction_version(f"quiver:{topic}")

    def position(self, topic: str, topic_id: int, partition: int) -> int | None:
        """The next offset to archive; None when nothing of the partition was archived."""
        return self._table.transaction_version(_app_id(topic, topic_id, partition))

    def refresh(self) -> None:
        self._table.update_incremental()

    def commit(self, files: Sequence[LakeFile], advances: Sequence[Advance], about: Mapping[str, Any]) -> None:
        """Adds files and moves positions, atomically. Raises TransactionConflict if another run moved them first."""
        from deltalake import CommitProperties, Transaction

        self._check_there(files)
        self.refresh()
        for step in advances:
            if self.position(step.topic, step.topic_id, step.partition) != step.start:
                self._discard(files)
                raise _conflict(f"{step.topic}-{step.partition}")
        positions = [Transaction(_app_id(*step[:3]), step.stop) for step in advances]
        topics = {step.topic: step.topic_id for step in advances}
        # Runs over different partitions of a topic do not conflict: its id is set once.
        positions += [
            Transaction(f"quiver:{name}", number) for name, number in topics.items() if self.topic_id(name) != number
        ]
        added: list[AddAction | RemoveAction] = [_added(file, data_change=True) for file in files]
        properties = CommitProperties(custom_metadata={"quiver": dict(about)}, app_transactions=positions)
        with self._refusals(files, ", ".join(sorted(topics))):
            self._write(added, properties)

    def replace(
        self,
        old: Sequence[LakeFile],
        new: Sequence[LakeFile],
        about: Mapping[str, Any],
        *,
        last_values_of: str | None = None,
    ) -> None:
        """Replaces files by others with the same messages, or by the last values of a topic.

        Raises TransactionConflict if somebody else did at the same time. Delta does not check that a file that a
        commit removes is still there. So all replacements count up one number, from the snapshot that `old` was
        listed from: do not refresh between the two.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import RemoveAction

        self._check_there(new)
        changes, now_ms = last_values_of is not None, SystemClock().now_ms()
        removed = [RemoveAction(file.path, changes, now_ms, file.size_bytes, _values(file)) for file in old]
        marks = [Transaction(_COMPACTIONS, (self._table.transaction_version(_COMPACTIONS) or 0) + 1)]
        if last_values_of is not None:
            marks.append(Transaction(f"{_LAST_VALUES}:{last_values_of}", 1))
        added = [_added(file, data_change=changes) for file in new]
        properties = CommitProperties(custom_metadata={"quiver": dict(about)}, app_transactions=marks)
        with self._refusals(new, "the files of the lake"):
            self._write([*added, *removed], properties)

    def check_last_values(self, topic: str) -> None:
        """Raises InvalidRequest if the lake has the archive of a topic, which last values would replace."""
        if self.topic_id(topic) is not None:
            raise InvalidRequest(
                problem=f"the lake in {self.root} has the archive of {topic!r}: choose another for its last values"
            )

    def check_archive(self, topic: str) -> None:
        """Raises InvalidRequest if the lake has the last values of a topic, which its archive would be mixed up
        with."""
        if self._table.transaction_version(f"{_LAST_VALUES}:{topic}") is not None:
            raise InvalidRequest(
                problem=f"the lake in {self.root} has the last values of {topic!r}: choose another for its archive"
            )

    def put_last_values(self, topic: str, files: Sequence[LakeFile], about: Mapping[str, Any]) -> None:
        """Replaces everything that the lake has of a topic."""
        old = [file for file in self.files() if file.topic == topic]
        self.replace(old, files, about, last_values_of=topic)

    def add_columns(self, columns: pa.Schema) -> None:
        """Those of them that the table does not have yet. Raises InvalidRequest if it has one of another type."""
        from deltalake import Schema

        missing = missing_columns(self.schema(), columns)
        if len(missing):
            self._table.alter.add_columns(list(Schema.from_arrow(missing).fields))
            self.refresh()

    def add_topic_ids(self) -> None:
        """Gives a lake of an earlier version the column for them: to be called before files are written."""
        self.add_columns(pa.schema([TOPIC_ID]))

    def vacuum(self, age_hours: int, *, dry_run: bool = False) -> list[str]:
        """Removes files that do not count and are older than that: replaced ones, and those of runs that failed."""
        return self._table.vacuum(
            retention_hours=age_hours, enforce_retention_duration=False, dry_run=dry_run, full=True
        )

    def _write(self, actions: "list[AddAction | RemoveAction]", properties: "CommitProperties") -> None:
        self._table.create_write_transaction(
            actions, "append", self.schema(), list(PARTITION_COLUMNS), commit_properties=properties
        )
        self.refresh()

    @contextmanager
    def _refusals(self, files: Sequence[LakeFile], what: str) -> Iterator[None]:
        """After a conflict the new files are removed. After any other error it is unknown whether they count: they
        stay, and `vacuum` removes them if they do not."""
        from deltalake.exceptions import CommitFailedError

        try:
            yield
        except CommitFailedError as error:
            if any(text in str(error) for text in _CONFLICTS):
                self._discard(files)
                raise _conflict(what) from None
            raise QuiverError(f"the lake in {self.root} refused a commit: {error}") from None

    def _check_there(self, files: Sequence[LakeFile]) -> None:
        """Raises InvalidRequest if workers have written where the driver does not see it."""
        for file in files:
            if not (self.root / file.path).is_file():
                raise InvalidRequest(
                    problem=f"the workers wrote {file.path}, which is not in {self.root} here: the lake must be a"
                    " directory that the driver and all workers share, under the same path"
                )

    def _discard(self, files: Sequence[LakeFile]) -> None:
        for file in files:
            (self.root / file.path).unlink(missing_ok=True)


def open_lake(path: str | Path, *, create: bool = False) -> Lake:
    """The lake in a directory. Raises InvalidRequest if there is none and `create` is not set."""
    root = lake_root(path)
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise InvalidRequest(problem='deltalake is not installed: pip install "quivermq[spark]"') from None
    if not DeltaTable.is_deltatable(str(root)):
        if not create:
            raise InvalidRequest(problem=f"there is no lake in {root}; quiver pipeline archive creates one")
        root.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            str(root),
            schema=LAKE_SCHEMA,
            mode="ignore",
            partition_by=list(PARTITION_COLUMNS),
            name="quiver",
            description="Messages of Quiver topics",
        )
    lake = Lake(root, DeltaTable(str(root)))
    if not set(OLDEST_SCHEMA.names) <= set(lake.schema().names):
        raise InvalidRequest(problem=f"the Delta table in {root} was not made by quiver; choose another directory")
    return lake


def lake_root(path: str | Path) -> Path:
    """The directory of a lake, as given by a path or a file: URI."""
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise InvalidRequest(
            problem=f"the lake {text!r} is no directory: mount it under the same path on the driver and all workers"
        )
    return Path(text).absolute()


def _app_id(topic: str, topic_id: int, partition: int) -> str:
    return f"quiver:{topic}:{topic_id}:{partition}"


def _added(file: LakeFile, *, data_change: bool) -> "AddAction":
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size_bytes, _values(file), SystemClock().now_ms(), data_change, file.stats())


def _values(file: LakeFile) -> dict[str, str | None]:
    return {"topic": file.topic, "date": file.date}


def _conflict(what: str) -> TransactionConflict:
    return TransactionConflict(
        f"another run changed {what} in the lake at the same time and was first; this run added nothing, so nothing"
        " is missing or duplicated: run it again to continue"
    )
