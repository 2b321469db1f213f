"""Files of the lake as Iceberg describes them: bounds by the id of a field, in Iceberg's binary form."""

from datetime import date
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType, NestedField, PrimitiveType, StructType

from quiver_spark.lake.files import LakeFile, file_of
from quiver_spark.lake.storage.place import LakePlace

_EPOCH_DAY = date(1970, 1, 1)
_BOUNDS = {
    "offset": ("first_offset", "last_offset"),
    "timestamp": ("min_time_us", "max_time_us"),
    "append_time": ("min_append_us", "max_append_us"),
}


def data_file(table: Table, place: LakePlace, file: LakeFile) -> DataFile:
    schema = table.schema()
    lower, upper = {}, {}
    for name, (low, high) in _BOUNDS.items():
        field = schema.find_field(name)
        assert isinstance(field.field_type, PrimitiveType)
        lower[field.field_id] = to_bytes(field.field_type, getattr(file, low))
        upper[field.field_id] = to_bytes(field.field_type, getattr(file, high))
    values = {"topic": file.topic, "partition": file.partition, "date": _days(file.date)}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{place.full_uri}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*(values[name] for name in file.layout.split(","))),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        lower_bounds=lower,
        upper_bounds=upper,
        null_value_counts=dict.fromkeys(lower, 0),
        value_counts=dict.fromkeys(lower, file.rows),
        spec_id=table.metadata.default_spec_id,
    )


def lake_file(table: Table, place: LakePlace, found: DataFile) -> LakeFile:
    """Raises CorruptData if the file was not written by quiver."""
    schema = table.schema()
    columns = [schema.find_column_name(field.source_id) or "" for field in table.spec().fields]
    file = file_of(found.file_path.removeprefix(f"{place.full_uri}/"), columns=columns)
    known: dict[str, Any] = {"rows": found.record_count, "size_bytes": found.file_size_in_bytes}
    for name, (low, high) in _BOUNDS.items():
        field = schema.find_field(name)
        assert isinstance(field.field_type, PrimitiveType)
        known[low] = from_bytes(field.field_type, found.lower_bounds[field.field_id])
        known[high] = from_bytes(field.field_type, found.upper_bounds[field.field_id])
    return file._replace(**known)


def with_field_ids(field: pa.Field, known: NestedField) -> pa.Field:
    """The field of Arrow with the id of the table's, and so its parts."""
    return _marked(field.with_type(_type_with_ids(field.type, known.field_type)), known.field_id)


def _type_with_ids(kind: pa.DataType, known: Any) -> pa.DataType:
    if isinstance(known, StructType):
        return pa.struct([with_field_ids(each, known.field_by_name(each.name)) for each in kind])  # type: ignore[arg-type]
    if isinstance(known, ListType):
        element = kind.value_field.with_type(_type_with_ids(kind.value_type, known.element_type))
        return pa.list_(_marked(element, known.element_id))
    if isinstance(known, MapType):
        key = kind.key_field.with_type(_type_with_ids(kind.key_type, known.key_type))
        item = kind.item_field.with_type(_type_with_ids(kind.item_type, known.value_type))
        return pa.map_(_marked(key, known.key_id), _marked(item, known.value_id))
    return kind


def _marked(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({b"PARQUET:field_id": str(number).encode()})


def _days(text: str) -> int:
    return (date.fromisoformat(text) - _EPOCH_DAY).days
