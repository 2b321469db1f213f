"""The columns of the lake: those of the source, the date, and typed ones from JSON values. Pure."""

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.columns import MESSAGE_SCHEMA

PARTITION_COLUMNS = ("topic", "date")
"""In the names of directories, not in the files."""
LAKE_SCHEMA = MESSAGE_SCHEMA.append(pa.field("date", pa.date32()))
STORED_SCHEMA = MESSAGE_SCHEMA.remove(MESSAGE_SCHEMA.get_field_index("topic"))
"""What every file has; typed columns come behind it."""
_PREFIX = "json_"


def column_name(field: str) -> str:
    """Where a field of a JSON value is found: under its own name, unless a column of the source has it."""
    return f"{_PREFIX}{field}" if field in LAKE_SCHEMA.names else field


def typed_columns(fields: pa.Schema) -> pa.Schema:
    """The columns for the fields of JSON values."""
    named = [field.with_name(column_name(field.name)) for field in fields]
    names = [field.name for field in named]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(problem=f"two fields of the schema make the column {name!r}; leave one of them out")
    return pa.schema(named)


def missing_columns(table: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns that a table has not; InvalidRequest when it has one of another type."""
    missing = []
    for field in wanted:
        if field.name not in table.names:
            missing.append(field)
        elif table.field(field.name).type != field.type:
            there = table.field(field.name).type
            raise InvalidRequest(
                problem=f"the lake has a column {field.name!r} of type {there}, not {field.type};"
                " give that type in the schema, or archive into another lake"
            )
    return pa.schema(missing)
