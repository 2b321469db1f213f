"""From messages to rows with typed columns, and from the rows of a query to messages. Pure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from quiver_spark.lake.json_columns import JsonColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_MESSAGE = ("key", "headers", "priority")
"""Columns of a result that do not go into the JSON value."""


def with_fields(frame: "DataFrame", fields: JsonColumns | None) -> "DataFrame":
    """Messages with a column for each field of their JSON values, after their own columns."""
    if fields is None:
        return frame
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    schema = from_arrow_schema(fields.extended(to_arrow_schema(frame.schema, timezone="UTC")))

    def extended(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(fields.extend_batch, batches)

    return frame.mapInArrow(extended, schema)


def as_messages(result: "DataFrame", key: str | None = None) -> "DataFrame":
    """The rows of a query as rows that the sink writes.

    A result with a column `value` is one of messages already. Of any other, all columns become a JSON object in
    `value`, except `key`, `headers` and `priority`, which are those of the message. `key` names a column of the
    result whose text is the key as well.
    """
    from pyspark.sql import functions as f

    is_message = "value" in result.columns
    inside = [name for name in result.columns if name not in _OF_MESSAGE]
    columns = {name: f.col(f"`{name}`") for name in result.columns if is_message or name in _OF_MESSAGE}
    if not is_message:
        columns["value"] = f.to_json(f.struct(*(f"`{name}`" for name in inside)), {"ignoreNullFields": "false"})
    if key is not None:
        columns["key"] = f.col(f"`{key}`")
    if "key" in columns:
        kind = result.schema[key or "key"].dataType.typeName()
        columns["key"] = columns["key"] if kind == "binary" else columns["key"].cast("string")
    return result.select(*(column.alias(name) for name, column in columns.items()))
