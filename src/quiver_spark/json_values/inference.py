"""Which fields JSON values have, and of which types, inferred from a sample. Pure.

A field with values of types that do not go together is left out: the raw value has it. So are all but one of the
fields whose names differ by case only.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow as pa

from quiver_spark.json_values.field_names import distinct

_DEEPEST = 16
_LARGEST = 2**63
_NUMBERS = ("int", "float")


def infer_fields(values: Iterable[bytes | None], column: Callable[[str], str] = str) -> pa.Schema:
    """The fields of the values that are JSON objects, by name; none when no value is.

    `column` is where a field is found.
    """
    found: Any = None
    for value in values:
        if value is None:
            continue
        try:
            decoded = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(decoded, dict):
            found = _merged(found, _shape(decoded, 0))
    kind = _arrow(found, column) if found is not None else None
    return pa.schema(list(kind)) if kind is not None else pa.schema([])


# A shape is a scalar type's name, {name: shape} for an object, [shape] for an array, None for null and "mixed" for
# types that do not go together.


def _shape(value: Any, depth: int) -> Any:
    match value:
        case None:
            return None
        case bool():
            return "bool"
        case int():
            return "int" if -_LARGEST <= value < _LARGEST else "float"
        case float():
            return "float"
        case str():
            return "string"
        case _ if depth >= _DEEPEST:
            return "mixed"
        case list():
            inner = None
            for item in value:
                inner = _merged(inner, _shape(item, depth + 1))
            return [inner]
        case _:
            return {name: _shape(item, depth + 1) for name, item in value.items()}


def _merged(one: Any, other: Any) -> Any:
    if one is None or one == other:
        return other
    if other is None:
        return one
    if one in _NUMBERS and other in _NUMBERS:
        return "float"
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _merged(one.get(name), other.get(name)) for name in one | other}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return "mixed"


_SCALARS = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}


def _arrow(shape: Any, column: Callable[[str], str] = str) -> pa.DataType | None:
    """None when there is nothing to infer from, or types are mixed. `column` is where a field is found."""
    if isinstance(shape, list):
        inner = _arrow(shape[0])
        return None if inner is None else pa.list_(pa.field("element", inner))
    if isinstance(shape, dict):
        fields = {name: kind for name, inner in shape.items() if name and (kind := _arrow(inner)) is not None}
        return pa.struct([pa.field(name, fields[name]) for name in distinct(fields, column)]) if fields else None
    return _SCALARS.get(shape) if shape is not None else None
