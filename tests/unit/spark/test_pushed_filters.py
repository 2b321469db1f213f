"""Filters keep exactly the rows that a row by row check keeps, whatever they skip on the way."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.limits import Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import stamp
from quiver.records.read import open_frame
from quiver_spark.columns import COLUMNS, BatchBuilder, rows_between
from quiver_spark.filters import Comparison, Filter, Filters, filter_of
from quiver_spark.ranges import Slice

NUMBERS = st.integers(0, 12)
COMPARISONS: st.SearchStrategy[Comparison] = st.sampled_from(["=", "in", "<", "<=", ">", ">="])
T0 = 1_000


def _value(column: str, number: int) -> Any:
    match column:
        case "priority":
            return ("critical", "high", "normal", "low", "background")[number % 5]
        case "key":
            return b"k%d" % (number % 4)
        case "timestamp" | "append_time":
            return datetime.fromtimestamp((T0 + number) / 1000, UTC)
    return number


@st.composite
def _filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(["partition", "offset", "timestamp", "append_time", "priority", "key"]))
    comparison = draw(COMPARISONS) if column not in ("priority", "key") else draw(st.sampled_from(["=", "in"]))
    if comparison == "in":
        value: Any = tuple(_value(column, n) for n in draw(st.lists(NUMBERS, max_size=3)))
    else:
        value = _value(column, draw(NUMBERS))
    found = filter_of(column, comparison, value)
    assert found is not None
    return found


@given(st.lists(_filters(), min_size=1, max_size=3), st.integers(0, 4), st.integers(0, 8), st.integers(1, 8))
def test_the_same_rows_as_row_by_row(each: list[Filter], priority: int, base: int, count: int) -> None:
    filters = Filters(tuple(each))
    frame = build_frame(
        [b"v"] * count,
        keys=[None if n % 3 == 2 else b"k%d" % (n % 4) for n in range(count)],
        timestamps_ms=[T0 + (n * 5) % 7 for n in range(count)],
        timestamp_ms=T0,
        priority=priority,
    )
    header = check_frame(frame, Limits())
    stamped = stamp(frame, header, base_offset=base, leader_epoch=1, append_time_ms=T0 + 3)
    opened = open_frame(bytes(stamped.header_bytes) + bytes(stamped.body))
    piece = Slice("t", 1, 0, 100, 1, 1000)
    rows = rows_between(stamped.header, opened, 0, 100)
    batch = BatchBuilder(piece, COLUMNS).batch([rows])
    expected = [row["offset"] for row in batch.to_pylist() if all(_passes(one, row) for one in each)]
    kept = filters.slices([piece])
    found: list[int] = []
    if kept and not filters.skips(stamped.header):
        part = rows_between(stamped.header, opened, kept[0].start, kept[0].stop)
        if part.rows > 0:
            found = filters.rows(BatchBuilder(piece, COLUMNS).batch([part])).column("offset").to_pylist()
    assert found == expected


def _passes(one: Filter, row: dict[str, Any]) -> bool:
    value = row[one.column]
    if isinstance(value, datetime):
        value = int(value.timestamp() * 1_000_000 + 0.5)
    return value is not None and one.allows(value)


def test_what_is_left_to_spark() -> None:
    assert filter_of("value", "=", b"x") is None
    assert filter_of("key", "<", b"x") is None
    assert filter_of("partition", "=", None) is None
    assert filter_of("timestamp", "<", datetime(2026, 1, 1)) is None
    assert filter_of("key", "not null") == Filter("key", "not null")


def test_nulls_never_pass() -> None:
    batch = pa.record_batch({"key": pa.array([b"a", None, b"b"], pa.binary())})
    for one in (Filter("key", "=", b"a"), Filter("key", "in", (b"a",))):
        assert Filters((one,)).rows(batch).column("key").to_pylist() == [b"a"]
    assert Filters((Filter("key", "not null"),)).rows(batch).num_rows == 2
