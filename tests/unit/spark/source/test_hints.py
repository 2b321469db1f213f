"""What the optimizer says that a query can need: parsed, and applied to slices."""

import json
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from quiver_spark.source.narrow.hints import NO_HINTS, Bounds, ReadHints, read_hints, whole_schema
from quiver_spark.source.slices import Slice

SLICE = Slice("t", 1, 10, 30, 7, 2_000)


def hints_of(*filters: Any) -> ReadHints:
    return read_hints([StructField("offset", LongType(), True, {"quiver.filters": json.dumps(filters)})])


def test_without_hints_everything_is_read() -> None:
    assert read_hints([StructField("offset", LongType())]) == read_hints([]) == NO_HINTS
    assert NO_HINTS.clipped(SLICE) == SLICE


def test_several_filters_are_all_true() -> None:
    found = hints_of(
        ["=", "key", ["6b31", "6b32"]], ["=", "key", ["6b32", "6b33"]],
        ["=", "partition", [1, 2]], ["=", "partition", [1]],
        [">=", "offset", [5]], ["<=", "offset", [20]], ["=", "offset", [12, 14]],
        [">=", "append_time", [1_000]], [">=", "priority", ["low"]],
    )  # fmt: skip
    assert found == ReadHints(frozenset({b"k2"}), frozenset({1}), Bounds(12, 14), Bounds(least=1_000))


def test_slices_keep_what_can_have_rows() -> None:
    assert hints_of([">=", "offset", [15]], ["<=", "offset", [24]]).clipped(SLICE) == Slice("t", 1, 15, 25, 7, 1_000)
    assert hints_of(["=", "partition", [1]]).clipped(SLICE) == SLICE
    for nothing in (["=", "partition", [0]], ["=", "partition", []], ["<=", "offset", [9]], [">=", "offset", [30]]):
        assert not hints_of(nothing).clipped(SLICE).offsets


def test_the_schema_that_the_user_asked_for() -> None:
    asked = StructType([StructField("body", LongType()), StructField("offset", LongType())])
    narrowed = StructType([StructField("offset", LongType(), True, {"quiver.schema": asked.json()})])
    assert whole_schema(narrowed) == asked
    assert whole_schema(asked) == asked
