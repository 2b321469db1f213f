"""A lake as an Iceberg table, in a catalog.

Marks are properties of the table. They change in the same commit as the files, which the catalog accepts only if the
table is still at the snapshot that the commit was made from.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles

from quiver.model.errors import QuiverError
from quiver.system.clock import SystemClock
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import open_store
from quiver_spark.lake.tables.iceberg_files import data_file, lake_file, with_field_ids
from quiver_spark.lake.tables.table_format import Change, CommitConflict, in_order

_MARK = "quiver.mark."
_HOUR_MS = 3_600_000
TABLE_PROPERTIES = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class _CheckedAppend(_MergeAppendFiles):
    """pyiceberg repeats a commit that lost against another one. That would add the messages of a range twice if the
    other commit had them too: so the marks are checked again."""

    change: Change

    def _validate_concurrency(self) -> None:
        _check_marks(self._transaction._table, self.change)


class _CheckedReplace(_OverwriteFiles):
    """The same for a commit that removes files. That they are still there is checked by the class below it."""

    change: Change

    def _validate_concurrency(self) -> None:
        _check_marks(self._transaction._table, self.change)


class IcebergLakeTable:
    format = "iceberg"

    def __init__(self, place: LakePlace, table: Table) -> None:
        self._place = place
        self._table = table
        schema = table.schema()
        self.partition_columns = tuple(
            schema.find_column_name(field.source_id) or "" for field in table.spec().fields
        )

    def version(self) -> int:
        metadata = self._table.metadata
        return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number

    def schema(self) -> pa.Schema:
        found = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        return pa.schema([field.with_type(_small(field.type)) for field in found])

    def file_schema(self, names: Sequence[str]) -> pa.Schema:
        """Files have all columns and the ids of their fields, as Iceberg finds columns by id."""
        wanted = set(names)
        return pa.schema(
            [
                with_field_ids(field, self._table.schema().find_field(field.name))
                for field in self.schema()
                if field.name in wanted
            ]
        )

    def files(self) -> list[LakeFile]:
        with iceberg_failures(self._place):
            return in_order([lake_file(self._table, self._place, found) for found in self._data_files()])

    def _data_files(self) -> Iterator[DataFile]:
        snapshot = self._table.current_snapshot()
        if snapshot is not None:
            for manifest in snapshot.manifests(self._table.io):
                for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                    yield entry.data_file

    def mark(self, name: str) -> int | None:
        return _mark(self._table, name)

    def refresh(self) -> None:
        with iceberg_failures(self._place):
            self._table.refresh()

    def write(self, change: Change) -> None:
        with iceberg_failures(self._place):
            try:
                _check_marks(self._table, change)
                self._commit(change)
            except (CommitFailedException, ValidationException) as error:
                raise CommitConflict(str(error)) from None

    def _commit(self, change: Change) -> None:
        paths = {file.path for file in change.removed}
        old = [found for found in self._data_files() if self._path(found.file_path) in paths] if paths else []
        if len(old) != len(paths):
            raise ValidationException(f"{len(paths) - len(old)} of the files are not in the table any more")
        about = {"quiver": msgspec.json.encode(change.about).decode()}
        with self._table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=about)
            kind, first = (_CheckedReplace, update.overwrite()) if old else (_CheckedAppend, update.merge_append())
            producer = kind(first._operation, transaction, self._table.io, snapshot_properties=about)
            producer.change = change
            for found in old:
                producer.delete_data_file(found)
            for file in change.added:
                producer.append_data_file(data_file(self._table, self._place, file))
            producer.commit()
            transaction.set_properties({f"{_MARK}{name}": str(value) for name, value in change.marks.items()})

    def add_columns(self, columns: pa.Schema) -> None:
        with iceberg_failures(self._place):
            with self._table.update_schema() as update:
                update.union_by_name(columns)
            self._table.refresh()

    def vacuum(self, age_hours: int, *, dry_run: bool) -> list[str]:
        """Forgets snapshots of that age, then removes files that no snapshot has."""
        from pyiceberg.table.maintenance import MaintenanceTable

        before_ms = SystemClock().now_ms() - age_hours * _HOUR_MS
        store = open_store(self._place)
        with iceberg_failures(self._place):
            self._table.refresh()
            current = self._table.metadata.current_snapshot_id
            expired = {
                snapshot.snapshot_id
                for snapshot in self._table.snapshots()
                if snapshot.timestamp_ms < before_ms and snapshot.snapshot_id != current
            }
            if expired and not dry_run:
                MaintenanceTable(self._table).expire_snapshots().by_ids(list(expired)).commit()
                self._table.refresh()
                expired = set()
            named = self._named(expired)
            unused = [
                file.path
                for file in store.files()
                if _is_own(file.path) and file.modified_ms < before_ms and file.path not in named
            ]
            for path in () if dry_run else unused:
                store.remove(path)
        return unused

    def _named(self, without: set[int]) -> set[str]:
        """The files that a snapshot has: data, manifests and their lists."""
        named: set[str] = set()
        for snapshot in self._table.snapshots():
            if snapshot.snapshot_id in without:
                continue
            named.add(self._path(snapshot.manifest_list))
            for manifest in snapshot.manifests(self._table.io):
                path = self._path(manifest.manifest_path)
                if path not in named:
                    named.add(path)
                    entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
                    named.update(self._path(entry.data_file.file_path) for entry in entries)
        return named

    def _path(self, uri: str) -> str:
        return uri.removeprefix(f"{self._place.full_uri}/")


def open_iceberg(place: LakePlace, catalog: Catalog, identifier: str) -> IcebergLakeTable:
    with iceberg_failures(place):
        return IcebergLakeTable(place, catalog.load_table(identifier))


def create_iceberg(
    place: LakePlace, catalog: Catalog, identifier: str, schema: pa.Schema, columns: Sequence[str]
) -> None:
    """Does nothing if somebody else has created it meanwhile."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.transforms import IdentityTransform

    with iceberg_failures(place):
        catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        found = assign_fresh_schema_ids(catalog._convert_schema_if_needed(schema))
        fields = [
            PartitionField(
                source_id=found.find_field(name).field_id,
                field_id=1000 + place_,
                transform=IdentityTransform(),
                name=name,
            )
            for place_, name in enumerate(columns)
        ]
        catalog.create_table_if_not_exists(
            identifier,
            found,
            location=place.full_uri,
            partition_spec=PartitionSpec(*fields),
            properties=dict(TABLE_PROPERTIES),
        )


@contextmanager
def iceberg_failures(place: LakePlace) -> Iterator[None]:
    """What pyiceberg and the catalogs raise, as errors that name the lake. There is no class for all of them."""
    try:
        yield
    except (QuiverError, CommitConflict):
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise QuiverError(f"the lake in {place} cannot be used: {reason}") from error


def _check_marks(table: Table, change: Change) -> None:
    for name, value in change.before.items():
        if _mark(table, name) != value:
            raise ValidationException(f"{name} is {_mark(table, name)}, not {value}")


def _mark(table: Table, name: str) -> int | None:
    found = table.metadata.properties.get(f"{_MARK}{name}")
    return None if found is None else int(found)


def _is_own(path: str) -> bool:
    return path.endswith(".parquet") or (path.startswith("metadata/") and path.endswith(".avro"))


def _small(kind: pa.DataType) -> pa.DataType:
    """The type with 32-bit offsets, as messages have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _small(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), _small(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_small(each.type)) for each in kind])
    return kind
