"""Which typed columns an archive run writes: from a schema, or inferred from the first messages."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.json_values.inference import infer_fields
from quiver_spark.json_values.read_schema import SAMPLE
from quiver_spark.lake.json_columns import JsonColumns, check_fields
from quiver_spark.lake.schema import column_name
from quiver_spark.lake.table import Lake
from quiver_spark.source.catalogue import Catalogue
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice


def columns_of_values(
    lake: Lake,
    catalogue: Catalogue,
    left: Sequence[Slice],
    options: ReadOptions,
    *,
    schema: str | None,
    infer: bool,
) -> JsonColumns | None:
    """None when values stay raw. What the lake has a column for already gets that column's type."""
    check_schema_choice(schema, infer=infer)
    if schema is not None:
        return JsonColumns(check_fields(read_schema(schema)))
    if not infer:
        return None
    found = as_in_the_lake(lake.schema(), infer_fields(sample_values(catalogue, left, options), column_name))
    return JsonColumns(found) if len(found) else None


def check_schema_choice(schema: str | None, *, infer: bool) -> None:
    """Raises InvalidRequest for what is wrong whatever Spark thinks of the schema."""
    if schema is not None and infer:
        raise InvalidRequest(problem="give a schema or have it inferred, not both")
    if schema is not None and _is_path(schema.strip()) and not Path(schema.strip()).is_file():
        raise InvalidRequest(problem=f"there is no file {schema.strip()!r}, and as DDL a schema has names and types")


def _is_path(text: str) -> bool:
    """DDL has a type after each name, and JSON has braces."""
    return not any(mark in text for mark in " {\n:")


def as_in_the_lake(table: pa.Schema, fields: pa.Schema) -> pa.Schema:
    """The fields with the types of the columns that there are. Pure.

    A field whose name differs from that of a column by case only is left out: the column is that of another field.
    """
    there = {name.lower(): table.field(name) for name in table.names}
    found = []
    for field in fields:
        column = there.get(column_name(field.name).lower())
        if column is None:
            found.append(field)
        elif column.name == column_name(field.name):
            found.append(field.with_type(column.type))
    return pa.schema(found)


def read_schema(text: str) -> pa.Schema:
    """The fields of a schema: Spark's DDL (`id BIGINT, at TIMESTAMP`) or JSON, or a file with either of them."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    stripped = text.strip()
    if stripped and _is_path(stripped) and Path(stripped).is_file():
        stripped = Path(stripped).read_text().strip()
    try:
        is_json = stripped.startswith("{")
        found = StructType.fromJson(json.loads(stripped)) if is_json else StructType.fromDDL(stripped)
        assert isinstance(found, StructType)
        fields: pa.Schema = to_arrow_schema(found, timezone="UTC")
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidRequest(
            problem=f"the schema is neither a file, nor DDL such as 'id BIGINT, at TIMESTAMP', nor JSON: {reason}"
        ) from None
    return fields


def sample_values(catalogue: Catalogue, left: Sequence[Slice], options: ReadOptions) -> Iterator[bytes | None]:
    """Values from the beginning of what is left of each partition."""
    for slice_ in left:
        front = slice_._replace(stop=min(slice_.stop, slice_.start + SAMPLE))
        if front.offsets:
            for batch in read_slice(catalogue.completed(front), options, ("value",)):
                yield from batch.column("value").to_pylist()
