"""From messages to rows with typed columns, and from the rows of a query to messages. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.lake.json_columns import JsonColumns
from quiver_spark.source.columns import COLUMNS

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


def as_messages(result: "DataFrame", key: str | None = None, tables: Iterable[Collection[str]] = ()) -> "DataFrame":
    """The rows of a query as rows that the sink writes.

    A result with a column `value` is one of messages already; it may have all fields of a table as well (`tables` has
    their names), as `select *` does, which are in the value. Of any other, all columns become a JSON object in
    `value`, except `key`, `headers` and `priority`, which are those of the message. `key` names a column of the
    result whose text is the key as well. Raises InvalidRequest for a column that a message has no place for.
    """
    from pyspark.sql import functions as f

    if "value" in result.columns:
        columns = {name: f.col(f"`{name}`") for name in _written(result.columns, key, tables)}
    else:
        inside = [f"`{name}`" for name in result.columns if name not in _OF_MESSAGE]
        columns = {name: f.col(f"`{name}`") for name in result.columns if name in _OF_MESSAGE}
        columns["value"] = f.to_json(f.struct(*inside), {"ignoreNullFields": "false"})
    if key is not None:
        columns["key"] = f.col(f"`{key}`")
    if "key" in columns:
        kind = result.schema[key or "key"].dataType.typeName()
        columns["key"] = columns["key"] if kind == "binary" else columns["key"].cast("string")
    return result.select(*(column.alias(name) for name, column in columns.items()))


def _written(columns: Sequence[str], key: str | None, tables: Iterable[Collection[str]]) -> list[str]:
    """The columns of a result of messages that the sink takes."""
    in_value = {name for fields in tables if set(columns).issuperset(fields) for name in fields}
    taken = [name for name in columns if name in COLUMNS]
    left = [name for name in columns if name not in taken and name not in in_value and name != key]
    if left:
        raise InvalidRequest(
            problem=f"the result has the column 'value', which is written as it is, and {left[0]!r}, for which a"
            " message has no place: leave out one of them"
        )
    return taken
