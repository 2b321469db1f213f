"""Columns from the fields of JSON values, in addition to the raw value.

A value that is not a JSON object, or has a field of another type, is kept as it is, with null in every typed column.
Fields that the schema does not name are left out; those that it names and a value lacks are null.
"""

from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.lake.schema import check_distinct, typed_columns

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


class JsonColumns(NamedTuple):
    """The fields of JSON values that get columns. Sent to the workers."""

    fields: pa.Schema

    @property
    def columns(self) -> pa.Schema:
        return typed_columns(self.fields)

    def extended(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*schema, *self.columns])

    def extend_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the typed columns after its own."""
        arrays = typed(batch.column("value"), self.fields)
        return pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=self.extended(batch.schema))


def typed(values: pa.Array, fields: pa.Schema) -> list[pa.Array]:
    """A column for each field."""
    decode = _decoder(fields).decode
    rows: list[dict[str, Any] | None] = []
    for value in values.to_pylist():
        try:
            rows.append(None if value is None else decode(value))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            rows.append(None)
    kind = pa.struct(fields)
    try:
        return list(pa.array(rows, kind).flatten())
    except (pa.ArrowException, OverflowError):
        return list(pa.array([row if _fits(row, kind) else None for row in rows], kind).flatten())


def _fits(row: dict[str, Any] | None, kind: pa.DataType) -> bool:
    """Whether Arrow takes it: a decimal may have too many digits, a time may be out of range."""
    try:
        pa.array([row], kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


def check_fields(fields: pa.Schema) -> pa.Schema:
    """The fields themselves. Raises InvalidRequest if there is none, or one that JSON cannot give."""
    if not len(fields):
        raise InvalidRequest(problem="the schema has no fields")
    typed_columns(fields)
    _decoder(fields)
    return fields


@lru_cache(maxsize=16)
def _decoder(fields: pa.Schema) -> "msgspec.json.Decoder[dict[str, Any]]":
    return msgspec.json.Decoder(_python_type(pa.struct(fields), "value"))


def _python_type(kind: pa.DataType, where: str) -> Any:
    """What msgspec checks a field against."""
    if kind in _BITS:
        most = 2 ** (_BITS[kind] - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_string(kind):
        return str
    if pa.types.is_timestamp(kind):
        return Annotated[datetime, msgspec.Meta(tz=kind.tz is not None)]
    if pa.types.is_date(kind):
        return date
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_list(kind):
        return list[_python_type(kind.value_type, f"{where}[]") | None]  # type: ignore[misc]
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return dict[str, _python_type(kind.item_type, f"{where}{{}}") | None]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        check_distinct([each.name for each in kind])
        inner = {}
        for each in kind:
            name = each.name
            # msgspec 0.22 finds a name outside ASCII only if that very string was written as UTF-8 before.
            msgspec.json.encode(name)
            inner[name] = _python_type(each.type, f"{where}.{name}") | None
        return TypedDict("Fields", inner, total=False)  # type: ignore[operator]
    raise InvalidRequest(
        problem=f"{where} cannot be {kind}: JSON gives numbers, strings, booleans, times, dates, decimals, arrays,"
        " structs and maps with string keys"
    )
