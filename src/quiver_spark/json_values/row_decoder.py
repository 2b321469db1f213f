"""Decodes one JSON value by a schema, and says which schemas JSON can have."""

from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver_spark.json_values.field_names import check_distinct

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def check_decodable(fields: pa.Schema) -> pa.Schema:
    """The fields themselves. Raises InvalidRequest if there is none, or one that JSON cannot give."""
    if not len(fields):
        raise InvalidRequest(problem="the schema has no fields")
    row_decoder(fields)
    return fields


@lru_cache(maxsize=16)
def row_decoder(fields: pa.Schema) -> "msgspec.json.Decoder[dict[str, Any]]":
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
        return datetime if kind.tz is not None else Annotated[datetime, msgspec.Meta(tz=False)]
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
