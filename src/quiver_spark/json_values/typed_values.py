"""The column `value` as a struct that is decoded from JSON, and `_corrupt` with the values that do not fit."""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.errors import InvalidRequest
from quiver_spark.json_values.decoding import decoded
from quiver_spark.json_values.row_decoder import check_decodable

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

VALUE = "value"
CORRUPT = "_corrupt"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TypedValues(NamedTuple):
    """How the column `value` of a read is decoded. Sent to the workers."""

    fields: pa.Schema

    def converted(self, batch: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
        """The columns of a batch of messages under the names that are asked for."""
        raw = batch.column(VALUE)
        typed = decoded(raw, self.fields)
        arrays = []
        for name in names:
            if name == VALUE:
                arrays.append(typed)
            elif name == CORRUPT:
                arrays.append(pc.if_else(typed.is_null(), raw, pa.scalar(None, raw.type)))
            else:
                arrays.append(batch.column(name))
        return arrays


def typed_values(schema: "StructType", needed: Sequence[str]) -> TypedValues | None:
    """None if the columns that are needed are those of messages. Raises InvalidRequest for types that JSON lacks.

    `schema` is what the user asked for; a query may need only some of its columns.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if not _is_typed(schema):
        if CORRUPT in schema.names:
            raise InvalidRequest(problem=f"the column {CORRUPT} goes with a struct: ask for 'value STRUCT<...>' too")
        return None
    fields = check_decodable(pa.schema(list(to_arrow_schema(schema, timezone="UTC").field(VALUE).type)))
    return TypedValues(fields) if VALUE in needed or CORRUPT in needed else None


def message_columns(schema: "StructType") -> list[tuple[str, str]]:
    """The columns of messages that a schema needs, with their types."""
    found = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if not _is_typed(schema) and CORRUPT not in schema.names:
        return found
    rest = [(name, kind) for name, kind in found if name not in (VALUE, CORRUPT)]
    return [*rest, (VALUE, "binary")]


def _is_typed(schema: "StructType") -> bool:
    from pyspark.sql.types import StructType

    return VALUE in schema.names and isinstance(schema[VALUE].dataType, StructType)


def value_columns(schema: str) -> dict[str, str]:
    """The types of the columns for a schema as users write it: DDL, or the JSON of a StructType."""
    text = schema.strip()
    if text.startswith("{"):
        from pyspark.sql.types import StructType

        try:
            kind = ddl(StructType.fromJson(json.loads(text)))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(problem=f"option 'valueSchema' is not the JSON of a StructType: {error}") from None
        return {VALUE: kind, CORRUPT: "binary"}
    inner = re.fullmatch(r"(?is)struct\s*<(.*)>", text)
    return {VALUE: f"struct<{inner[1] if inner else text}>", CORRUPT: "binary"}


def ddl(kind: "DataType") -> str:
    """A type as DDL."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{_quoted(field.name)} {ddl(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return kind.simpleString()


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"
