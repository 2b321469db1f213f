"""Many JSON values at a time give what each of them gives alone."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_spark.json_values.decoding import decoded
from quiver_spark.json_values.typed_values import value_columns

FIELDS = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("inner", pa.struct([("flag", pa.bool_()), ("list", pa.list_(pa.int32()))])),
    ]
)
GOOD = [
    b"{}",
    b'{"id": 7, "price": 1, "name": "x", "more": {"a": [1, 2]}}',
    b'{"id": 1, "id": 2}',
    b'{\n"price": 2.5e3\n}',
    b' {"name": "leading space"}',
    b'{"at": "2026-01-31T12:00:00Z"}',
    b'{"at": "2026-01-31 12:00:00"}',
    b'{"inner": {"flag": true, "list": [1, null]}}',
    b'{"name": "gr\xc3\xb6\xc3\x9fe"}',
]
BAD = [
    b'{"id": 1.5}',
    b"",
    b"7",
    b"[]",
    b"{}{}",
    b'{"id": 1}\n{"id": 2}',
    b'{"id": "7"}',
    b'{"name": "\xff"}',
    b'{"name": "open',
    b'{"id": 1},{"id": 2}',
    b'{"price": "1.5"}',
    b'{"inner": {"list": [3000000000]}}',
]


def _alone(value: bytes | None) -> Any:
    return decoded(pa.array([value], pa.binary()), FIELDS)[0].as_py()


@pytest.mark.parametrize("value", GOOD)
def test_objects_that_fit(value: bytes) -> None:
    assert _alone(value) is not None


@pytest.mark.parametrize("value", BAD)
def test_what_is_kept_as_it_is(value: bytes) -> None:
    assert _alone(value) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([None, *GOOD, *BAD]), max_size=40), st.integers(0, 3))
def test_neighbours_make_no_difference(values: list[bytes | None], times: int) -> None:
    values = [b'{"id": 5}'] * (70 * times) + values + [b'{"name": "last"}'] * times
    found = decoded(pa.array(values, pa.binary()), FIELDS)
    assert found.type == pa.struct(FIELDS)
    known = {value: _alone(value) for value in set(values)}
    assert found.to_pylist() == [known[value] for value in values]


def test_a_schema_is_ddl_or_json() -> None:
    assert value_columns("id BIGINT, at TIMESTAMP")["value"] == "struct<id BIGINT, at TIMESTAMP>"
    assert value_columns("STRUCT<id: BIGINT>")["value"] == "struct<id: BIGINT>"
    field = {"name": "a b", "type": "long", "nullable": True, "metadata": {}}
    assert value_columns(json.dumps({"type": "struct", "fields": [field]}))["value"] == "struct<`a b` bigint>"
