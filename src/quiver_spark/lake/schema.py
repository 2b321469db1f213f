"""The columns of the lake: those of the source, the date, and typed ones from JSON values. Pure."""

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.json_values.field_names import check_distinct
from quiver_spark.source.columns import MESSAGE_SCHEMA

TOPIC_ID = pa.field("topic_id", pa.int64())
"""A topic that is deleted and created again has the same name and offsets, and another id."""
OLDEST_SCHEMA = MESSAGE_SCHEMA.append(pa.field("date", pa.date32()))
"""What every lake has; those of earlier versions have no more."""
LAKE_SCHEMA = OLDEST_SCHEMA.append(TOPIC_ID)
FRAME_SCHEMA = MESSAGE_SCHEMA.remove(MESSAGE_SCHEMA.get_field_index("topic"))
"""What files have from the frames of a topic."""
STORED_SCHEMA = FRAME_SCHEMA.append(TOPIC_ID)
"""What every file has; typed columns come after it."""
_PREFIX = "json_"
_TAKEN = frozenset(name.lower() for name in LAKE_SCHEMA.names)


def with_topic_id(batch: pa.RecordBatch, topic_id: int | None) -> pa.RecordBatch:
    """A batch of frames with all columns that every file has."""
    ids = pa.repeat(pa.scalar(topic_id, pa.int64()), len(batch))
    return pa.RecordBatch.from_arrays([*batch.columns, ids], schema=STORED_SCHEMA)


def column_name(field: str) -> str:
    """Where a field of a JSON value is found: under its own name, unless a column of the lake has it.

    Spark and Delta do not tell names apart by case, so neither does the lake.
    """
    return f"{_PREFIX}{field}" if field.lower() in _TAKEN else field


def typed_columns(fields: pa.Schema) -> pa.Schema:
    """The columns for the fields of JSON values."""
    named = [field.with_name(column_name(field.name)) for field in fields]
    check_distinct([field.name for field in named])
    return pa.schema(named)


def missing_columns(table: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns that a table has not. Raises InvalidRequest if it has one of another type."""
    missing = []
    by_case = {name.lower(): name for name in table.names}
    for field in wanted:
        if field.name not in table.names:
            if (there := by_case.get(field.name.lower())) is not None:
                raise InvalidRequest(
                    problem=f"the lake has a column {there!r}, and {field.name!r} differs from it by case only; name"
                    f" the field {there!r} in the schema, or archive into another lake"
                )
            missing.append(field)
        elif table.field(field.name).type != field.type:
            there = table.field(field.name).type
            raise InvalidRequest(
                problem=f"the lake has a column {field.name!r} of type {there}, not {field.type};"
                " give that type in the schema, or archive into another lake"
            )
    return pa.schema(missing)
