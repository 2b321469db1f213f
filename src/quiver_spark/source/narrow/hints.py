"""Which rows a query can need at most, as the optimizer of the session says (NarrowReads.java). Pure.

Spark applies the filters of a query itself; a hint only says which messages need not be read. It comes in the
metadata of the schema's first column, because a query has no other way to tell a Python source something.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from quiver_spark.source.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

_HINT = "quiver.filters"
_SCHEMA = "quiver.schema"
_LEAST, _MOST = -(2**63), 2**63 - 1


class Bounds(NamedTuple):
    """Both are included."""

    least: int = _LEAST
    most: int = _MOST

    def within(self, other: "Bounds") -> "Bounds":
        return Bounds(max(self.least, other.least), min(self.most, other.most))

    @property
    def is_open(self) -> bool:
        return self == Bounds()


class ReadHints(NamedTuple):
    keys: frozenset[bytes] | None = None
    """None: any, or no key."""
    partitions: frozenset[int] | None = None
    offsets: Bounds = Bounds()
    append_ms: Bounds = Bounds()

    def clipped(self, slice_: Slice) -> Slice:
        """The part of a slice that can have rows, by its partition and offsets."""
        if self.partitions is not None and slice_.partition not in self.partitions:
            return slice_._replace(stop=slice_.start, size_bytes=0)
        return slice_.between(self.offsets.least, self.offsets.most + 1)


NO_HINTS = ReadHints()


def read_hints(fields: "Sequence[StructField]") -> ReadHints:
    """The hints in the metadata of a schema's fields; none if there are none."""
    text = fields[0].metadata.get(_HINT) if fields and fields[0].metadata else None
    hints = NO_HINTS
    for operation, column, values in json.loads(text) if text else ():
        hints = _with(hints, operation, column, values)
    return hints


def whole_schema(schema: "StructType") -> "StructType":
    """What the user asked for, of which a query may need only some columns."""
    text = schema.fields[0].metadata.get(_SCHEMA) if schema.fields and schema.fields[0].metadata else None
    return schema if text is None else schema.fromJson(json.loads(text))


def _with(hints: ReadHints, operation: str, column: str, values: list[Any]) -> ReadHints:
    match column:
        case "key" if operation == "=":
            keys = frozenset(bytes.fromhex(value) for value in values)
            return hints._replace(keys=keys if hints.keys is None else hints.keys & keys)
        case "partition" if operation == "=":
            numbers = frozenset(values)
            return hints._replace(partitions=numbers if hints.partitions is None else hints.partitions & numbers)
        case "offset":
            return hints._replace(offsets=hints.offsets.within(_bounds(operation, values)))
        case "append_time":
            return hints._replace(append_ms=hints.append_ms.within(_bounds(operation, values)))
    return hints


def _bounds(operation: str, values: list[int]) -> Bounds:
    match operation:
        case ">=":
            return Bounds(least=values[0])
        case "<=":
            return Bounds(most=values[0])
        case _:
            return Bounds(min(values), max(values))
