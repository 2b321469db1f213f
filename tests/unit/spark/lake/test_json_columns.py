"""Typed columns from JSON values, given or told from a sample."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.archive.value_columns import as_in_the_lake
from quiver_spark.json_values.inference import infer_fields as infer_names
from quiver_spark.lake.json_columns import JsonColumns, check_fields, typed
from quiver_spark.lake.schema import LAKE_SCHEMA, STORED_SCHEMA, column_name, missing_columns, typed_columns


def infer_fields(values: list[bytes | None]) -> pa.Schema:
    return infer_names(values, column_name)


FIELDS = pa.schema(
    [
        ("id", pa.int32()),
        ("amount", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(6, 2)),
        ("tags", pa.list_(pa.string())),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int64())])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


def columns(*values: bytes | None) -> list[dict[str, Any]]:
    arrays = typed(pa.array(values, pa.binary()), FIELDS)
    return pa.RecordBatch.from_arrays(arrays, schema=FIELDS).to_pylist()  # type: ignore[no-any-return]


def test_every_type() -> None:
    (row,) = columns(
        b'{"id": 7, "amount": 3, "at": "2026-01-31T12:00:00.5+02:00", "day": "2026-01-31", "price": 1.25,'
        b' "more": [1],'
        b' "tags": ["a", null], "who": {"name": "x", "age": 3, "z": 1}, "counts": {"a": 1}}'
    )
    assert row == {
        "id": 7,
        "amount": 3.0,
        "at": datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "price": Decimal("1.25"),
        "tags": ["a", None],
        "who": {"name": "x", "age": 3},
        "counts": [("a", 1)],
    }


@pytest.mark.parametrize(
    "bad",
    [
        None,
        b"",
        b"no json",
        b"null",
        b"[1]",
        b'{"id": 1} {"id": 2}',
        b'{"id": "1"}',
        b'{"id": 1.5}',
        b'{"id": 3000000000}',
        b'{"id": 99999999999999999999}',
        b'{"price": 1.234}',
        b'{"price": 123456789}',
        b'{"who": {"name": 5}}',
        b'{"tags": {"a": 1}}',
        b'{"id": 1, "tags": ["\xff"]}',
        b"[" * 100_000,
    ],
)
def test_a_bad_value_has_null_in_every_column_and_spoils_no_other(bad: bytes | None) -> None:
    first, middle, last = columns(b'{"id": 1}', bad, b'{"id": 2, "price": null}')
    assert (first["id"], last["id"]) == (1, 2)
    assert set(middle.values()) == {None}


def test_names_outside_ascii() -> None:
    fields = pa.schema([("größe", pa.int64()), ("n", pa.struct([("名", pa.string())]))])
    values = ['{"größe": 1, "": "x", "n": {"名": "a", "": 1}}'.encode(), b'{"": [], "gr": 5}']
    assert [array.to_pylist() for array in typed(pa.array(values), fields)] == [[1, None], [{"名": "a"}, None]]


def test_names_of_the_source_get_a_prefix() -> None:
    beside = JsonColumns(pa.schema([("id", pa.int64()), ("timestamp", pa.string()), ("date", pa.string())]))
    assert beside.extended(STORED_SCHEMA).names == [*STORED_SCHEMA.names, "id", "json_timestamp", "json_date"]
    with pytest.raises(InvalidRequest, match="two fields of the schema make the column 'json_key'"):
        typed_columns(pa.schema([("key", pa.string()), ("json_key", pa.string())]))


TWICE = [("Id", pa.int64()), ("iD", pa.int64())]


def test_case_makes_no_difference_to_columns() -> None:
    assert infer_fields([b'{"Id": 1, "id": "a", "ID": true}']) == pa.schema([("ID", pa.bool_())])
    assert infer_fields([b'{"id": 1}', b'{"Id": {"x": 1, "X": 2}}']) == pa.schema(
        [("Id", pa.struct([("X", pa.int64())]))]
    )
    assert infer_fields([b'{"Topic": "x", "topic": 1, "json_topic": 2}']).names == ["Topic"]
    assert JsonColumns(pa.schema([("Topic", pa.string())])).columns.names == ["json_Topic"]
    assert column_name("TOPIC_ID") == "json_TOPIC_ID"
    for same in (pa.schema([("Id", pa.int64()), ("id", pa.int64())]), pa.schema([("n", pa.struct(TWICE))])):
        with pytest.raises(InvalidRequest, match=r"make the column .* case makes no difference"):
            check_fields(same)
    table = pa.schema([*LAKE_SCHEMA, pa.field("Id", pa.int64())])
    assert as_in_the_lake(table, pa.schema([("id", pa.string()), ("x", pa.bool_())])).names == ["x"]
    with pytest.raises(InvalidRequest, match="has a column 'Id', and 'id' differs from it by case only; name the"):
        missing_columns(table, pa.schema([("id", pa.int64())]))


def test_types_that_json_cannot_give() -> None:
    for kind in (pa.binary(), pa.map_(pa.int64(), pa.int64()), pa.list_(pa.duration("us"))):
        with pytest.raises(InvalidRequest, match="cannot be"):
            check_fields(pa.schema([("x", kind)]))
    with pytest.raises(InvalidRequest, match="no fields"):
        check_fields(pa.schema([]))


def test_types_are_told_from_a_sample() -> None:
    sample = [b'{"id": 1, "x": 1, "who": {"a": 1}, "l": []}', b"bad", None, b"[1]"]
    sample += [b'{"x": 1.5, "n": null, "l": [true]}']
    sample += [b'{"who": {"b": "s"}, "mixed": 1, "big": 99999999999999999999}', b'{"mixed": "a", "": 1}']
    who = pa.struct([("a", pa.int64()), ("b", pa.string())])
    assert infer_fields(sample) == pa.schema(
        [
            ("big", pa.float64()),
            ("id", pa.int64()),
            ("l", pa.list_(pa.field("element", pa.bool_()))),
            ("who", who),
            ("x", pa.float64()),
        ]
    )
    assert len(infer_fields([b"1", None])) == 0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), _JSON, max_size=4), min_size=1, max_size=6))
def test_values_fit_what_was_told_from_them(objects: list[dict[str, Any]]) -> None:
    values = [msgspec.json.encode(each) for each in objects]
    fields = infer_fields(values)
    if not len(fields):
        return
    arrays = typed(pa.array(values, pa.binary()), check_fields(fields))
    for field, array in zip(fields, arrays, strict=True):
        nulls = [value is None for value in array.to_pylist()]
        assert nulls == [each.get(field.name) is None for each in objects]


def test_what_the_lake_has_keeps_its_type() -> None:
    table = pa.schema([*LAKE_SCHEMA, pa.field("x", pa.float64()), pa.field("json_key", pa.string())])
    found = as_in_the_lake(table, pa.schema([("x", pa.int64()), ("key", pa.int64()), ("new", pa.bool_())]))
    assert found == pa.schema([("x", pa.float64()), ("key", pa.string()), ("new", pa.bool_())])
