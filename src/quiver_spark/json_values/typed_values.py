"""The column `value` as a struct that is decoded from JSON, and `_corrupt` with the values that do not fit."""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.errors import InvalidRequest
from quiver_spark.json_values.decoding import decoded
from quiver_spark.json_values.row_decoder import check_fields

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

VALUE = "value"
CORRUPT = "_corrupt"
INFER = "infer"
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


def typed_values(schema: "StructType", arrow: pa.Schema) -> TypedValues | None:
    """None if the columns that are asked for are those of messages. Raises InvalidRequest for types JSON lacks."""
    from pyspark.sql.types import StructType

    if VALUE in schema.names and isinstance(schema[VALUE].dataType, StructType):
        return TypedValues(check_fields(pa.schema(list(arrow.field(VALUE).type))))
    if CORRUPT in schema.names:
        raise InvalidRequest(problem=f"the column {CORRUPT} goes with a struct: ask for 'value STRUCT<...>' too")
    return None


def message_columns(schema: "StructType", *, typed: bool) -> list[tuple[str, str]]:
    """The columns of messages that a schema needs, with their types."""
    found = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if not typed:
        return found
    return [(name, "binary" if name == VALUE else kind) for name, kind in found if name != CORRUPT]


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
