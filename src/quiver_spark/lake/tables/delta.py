"""A lake as a Delta table.

Marks are Delta's application transactions. Two commits that set the same one from the same snapshot conflict, and
the table refuses the second. In S3 a commit is a conditional put, which the store must support: `deltalake` uses it
without being asked, and Amazon's, Google's and Azure's stores, MinIO, Ceph and R2 have it.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from quiver.model.errors import CorruptData, InvalidRequest, QuiverError
from quiver.system.clock import SystemClock
from quiver_spark.lake.files import LakeFile, file_of
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.tables.table_format import Change, CommitConflict, in_order

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

_TRACE = re.compile(r"\s*\d+: ")
_CONFLICTS = ("Concurrent transaction failed", "Metadata changed since last commit")


class DeltaLakeTable:
    format = "delta"

    def __init__(self, place: LakePlace, table: "DeltaTable") -> None:
        self._place = place
        self._table = table
        self.partition_columns = tuple(table.metadata().partition_columns)

    def version(self) -> int:
        return self._table.version()

    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def file_schema(self, names: Sequence[str]) -> pa.Schema:
        """Delta keeps the values of partition columns outside the files."""
        wanted = set(names) - set(self.partition_columns)
        return pa.schema([field for field in self.schema() if field.name in wanted])

    def files(self) -> list[LakeFile]:
        actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return in_order([file_of(action["path"], action, self.partition_columns) for action in actions])

    def mark(self, name: str) -> int | None:
        return self._table.transaction_version(name)

    def refresh(self) -> None:
        with delta_failures(self._place):
            self._table.update_incremental()

    def write(self, change: Change) -> None:
        """Delta does not check that a removed file is still there: the lake has a mark that all removals change."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        now_ms = SystemClock().now_ms()
        actions: list[AddAction | RemoveAction] = [_added(file, now_ms, change.changes_rows) for file in change.added]
        actions += [_removed(file, now_ms, change.changes_rows) for file in change.removed]
        marks = [Transaction(name, value) for name, value in change.marks.items()]
        properties = CommitProperties(custom_metadata={"quiver": dict(change.about)}, app_transactions=marks)
        columns = list(self.partition_columns)
        with delta_failures(self._place):
            try:
                self._table.create_write_transaction(
                    actions, "append", self.schema(), columns, commit_properties=properties
                )
            except CommitFailedError as error:
                if any(text in str(error) for text in _CONFLICTS):
                    raise CommitConflict(str(error)) from None
                raise
            self._table.update_incremental()

    def add_columns(self, columns: pa.Schema) -> None:
        from deltalake import Schema

        with delta_failures(self._place):
            self._table.alter.add_columns(list(Schema.from_arrow(columns).fields))
            self._table.update_incremental()

    def vacuum(self, age_hours: int, *, dry_run: bool) -> list[str]:
        with delta_failures(self._place):
            return self._table.vacuum(
                retention_hours=age_hours, enforce_retention_duration=False, dry_run=dry_run, full=True
            )


def open_delta(place: LakePlace) -> DeltaLakeTable | None:
    """None if there is no Delta table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    with delta_failures(place):
        try:
            return DeltaLakeTable(place, DeltaTable(place.uri, storage_options=storage_options(place)))
        except TableNotFoundError:
            return None


def create_delta(place: LakePlace, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Does nothing if somebody else has created it meanwhile."""
    from deltalake import DeltaTable

    with delta_failures(place):
        DeltaTable.create(
            place.uri,
            schema=schema,
            mode="ignore",
            partition_by=list(columns),
            name="quiver",
            description="Messages of Quiver topics",
            storage_options=storage_options(place),
        )


def storage_options(place: LakePlace) -> dict[str, str]:
    """The same settings under the names of `deltalake`."""
    options = dict(place.settings)
    endpoint = place.setting("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    if endpoint is not None:
        options["AWS_ENDPOINT_URL"] = endpoint
        options.setdefault("AWS_REGION", place.setting("AWS_DEFAULT_REGION") or "us-east-1")
        if endpoint.startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
    return options


@contextmanager
def delta_failures(place: LakePlace) -> Iterator[None]:
    """What `deltalake` raises, as errors that name the lake."""
    from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

    try:
        yield
    except CommitFailedError as error:
        raise QuiverError(f"the lake in {place} refused a commit: {_sentence(error)}") from None
    except DeltaProtocolError as error:
        raise CorruptData(f"the Delta log of the lake in {place} cannot be read: {_sentence(error)}") from None
    except (DeltaError, OSError) as error:
        raise QuiverError(f"the lake in {place} cannot be used: {_sentence(error)}") from None


def _sentence(error: Exception) -> str:
    """The error in one line, without the trace that errors of Rust have after it."""
    lines = itertools.takewhile(lambda line: not _TRACE.match(line), str(error).splitlines())
    return " ".join(line.strip() for line in lines)


def check_installed() -> None:
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise InvalidRequest(problem='deltalake is not installed: pip install "quivermq[spark]"') from None


def _added(file: LakeFile, now_ms: int, changes_rows: bool) -> "AddAction":
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size_bytes, file.partition_values(), now_ms, changes_rows, file.stats())


def _removed(file: LakeFile, now_ms: int, changes_rows: bool) -> "RemoveAction":
    from deltalake.transaction import RemoveAction

    return RemoveAction(file.path, changes_rows, now_ms, file.size_bytes, file.partition_values())
