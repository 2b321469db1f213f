"""Building frames from Arrow: which columns and types are taken."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from quiver.model.errors import InvalidRequest
from quiver.records.build import build_frame, build_frame_from_arrow
from quiver.records.columns import HEADERS_TYPE
from quiver.records.read import OpenFrame
from unit.records.frame_content import through_the_broker


def built(columns: dict[str, Any], **options: Any) -> OpenFrame:
    return through_the_broker(build_frame_from_arrow(pa.table(columns), timestamp_ms=7, **options))


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(3),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_text_and_bytes_are_taken(kind: pa.DataType) -> None:
    column = (
        pa.array(["abc", None, "def"]).cast(kind) if kind != pa.binary(3) else pa.array([b"abc", None, b"def"], kind)
    )
    opened = built({"value": column, "key": column})
    assert opened.values() == opened.keys() == [b"abc", None, b"def"]
    assert opened.timestamps() == [7, 7, 7]


def test_a_table_makes_the_same_frame_as_lists() -> None:
    batch = pa.record_batch({"value": pa.array([b"a", b"b"]), "key": pa.array([b"k", None])})
    frame = build_frame_from_arrow(
        batch, timestamp_ms=7, compression="lz4", priority=1, producer_id=3, producer_epoch=0
    )
    assert frame == build_frame(
        [b"a", b"b"],
        keys=[b"k", None],
        timestamp_ms=7,
        compression="lz4",
        priority=1,
        producer_id=3,
        producer_epoch=0,
    )


def test_tombstones_may_fill_the_column() -> None:
    assert built({"value": pa.nulls(2), "key": pa.array([b"a", b"b"])}).values() == [None, None]
    assert built({"value": pa.array([b"a"]), "key": pa.nulls(1)}).header.columns == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_become_milliseconds(unit: str, zone: str | None) -> None:
    moment = datetime(2026, 11, 15, 12, 0, 1, tzinfo=UTC)
    ms = int(moment.timestamp() * 1000)
    column = pa.array([ms, None, 0], pa.timestamp("ms", zone)).cast(pa.timestamp(unit, zone))
    assert built({"value": pa.array([b"a"] * 3), "timestamp": column}).timestamps() == [ms, 7, 0]


def test_finer_parts_of_timestamps_are_cut_off() -> None:
    column = pa.array([1_999, 2_000], pa.timestamp("us"))
    assert built({"value": pa.array([b"a"] * 2), "timestamp": column}).timestamps() == [1, 2]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64()])
def test_whole_numbers_are_milliseconds(kind: pa.DataType) -> None:
    assert built({"value": pa.array([b"a"] * 2), "timestamp": pa.array([5, 6], kind)}).timestamps() == [5, 6]
    assert built({"value": pa.array([b"a"] * 2), "timestamp": pa.array([5, 5], kind)}).header.columns == 0


def test_headers_of_text_and_rows_without_any() -> None:
    rows = [[("a", "1"), ("b", "ü")], None, []]
    opened = built({"value": pa.array([b""] * 3), "headers": pa.array(rows, pa.map_(pa.string(), pa.string()))})
    assert opened.headers() == [{"a": b"1", "b": "ü".encode()}, {}, {}]


def test_a_slice_brings_nothing_but_its_rows() -> None:
    whole = pa.table(
        {
            "value": pa.array([b"x" * 10_000, b"a", b"b"]),
            "headers": pa.array([[("n", None)], [("m", b"1")], None], HEADERS_TYPE),
        }
    )
    frame = build_frame_from_arrow(whole.slice(1), timestamp_ms=1)
    assert len(frame) < 1000
    assert through_the_broker(frame).headers() == [{"m": b"1"}, {}]
    assert through_the_broker(build_frame_from_arrow(whole.slice(2), timestamp_ms=1)).header.columns == 0


def test_chunks_are_put_together() -> None:
    chunks = pa.chunked_array([[b"a"], [], [b"b", b"c"]], pa.binary())
    assert built({"value": chunks}).values() == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"key": [b"a"]}, "no column 'value'"),
        ({"value": [b"a"], "partition": [1]}, "'partition' is not one of"),
        ({"value": pa.array([], pa.binary())}, "at least one"),
        ({"value": [1]}, "'value' has type int64"),
        ({"value": [b"a"], "key": [1.5]}, "'key' has type double"),
        ({"value": [b"a"], "timestamp": ["now"]}, "'timestamp' has type string"),
        ({"value": [b"a"], "timestamp": pa.array([2**63], pa.uint64())}, "'timestamp' of type uint64"),
        ({"value": [b"a"], "timestamp": pa.array([2**60], pa.timestamp("s"))}, "'timestamp' of type"),
        ({"value": [b"a"], "timestamp": [-5]}, "1970"),
        ({"value": [b"a"], "headers": [b"a"]}, "'headers' of type binary"),
        ({"value": [b"a"], "headers": pa.array([[("a", None)]], HEADERS_TYPE)}, "may not be null"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidRequest, match=match):
        build_frame_from_arrow(pa.table(columns), timestamp_ms=1)


def test_a_column_that_comes_twice_is_named() -> None:
    column = pa.array([b"a"])
    with pytest.raises(InvalidRequest, match="each once"):
        build_frame_from_arrow(pa.Table.from_arrays([column, column], names=["value", "value"]), timestamp_ms=1)
