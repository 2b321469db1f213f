"""Whatever goes into a frame comes out of it, through the entry check and the stamp."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quiver.records.build import build_frame, build_frame_from_arrow
from quiver.records.columns import HEADERS_TYPE, MAX_TIMESTAMP_MS
from quiver.records.read import ARROW_SCHEMA
from unit.records.frame_content import assert_holds, through_the_broker

times = st.integers(0, MAX_TIMESTAMP_MS)
maybe_bytes = st.none() | st.binary(max_size=40)
header_maps = st.none() | st.dictionaries(st.text(max_size=8), st.binary(max_size=8), max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `build_frame`: any number of rows, any set of optional columns."""
    count = draw(st.integers(1, 20))

    def rows(item: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(item, min_size=count, max_size=count))

    arguments: dict[str, Any] = {"values": rows(maybe_bytes)}
    if draw(st.booleans()):
        arguments["timestamps_ms"] = rows(times)
    else:
        arguments["timestamp_ms"] = draw(times)
    optional = {
        "keys": maybe_bytes,
        "headers": header_maps,
        "deliver_at_ms": st.none() | times,
        "expires_at_ms": st.none() | times,
        "ids": maybe_bytes,
    }
    for name, item in optional.items():
        if draw(st.booleans()):
            arguments[name] = rows(item)
    return arguments


options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "lz4", "zstd"]),
        "priority": st.integers(0, 4),
        "schema_id": st.integers(0, 2**32 - 1),
    },
    optional={"transactional": st.booleans()},
)


@given(batches(), options, st.integers(0, 2**62))
def test_lists_come_back(arguments: dict[str, Any], chosen: dict[str, Any], base_offset: int) -> None:
    if chosen.get("transactional"):
        chosen |= {"producer_id": 5, "producer_epoch": 0, "base_sequence": 3}
    opened = through_the_broker(build_frame(**arguments, **chosen), base_offset)
    count = len(arguments["values"])
    assert_holds(opened, arguments)
    assert opened.offsets() == range(base_offset, base_offset + count)
    stamps = opened.timestamps()
    assert (opened.header.min_timestamp_ms, opened.header.max_timestamp_ms) == (min(stamps), max(stamps))
    assert opened.header.record_count == count == len(opened)
    assert opened.header.frame_bytes % 8 == 0


@given(batches())
def test_arrow_says_the_same_as_lists(arguments: dict[str, Any]) -> None:
    opened = through_the_broker(build_frame(**arguments), 10)
    table = opened.to_arrow()
    assert table.schema == ARROW_SCHEMA
    table.validate(full=True)
    assert table.column("offset").to_pylist() == list(opened.offsets())
    assert table.column("timestamp").to_pylist() == opened.timestamps()
    assert table.column("key").to_pylist() == opened.keys()
    assert table.column("value").to_pylist() == opened.values()
    assert [dict(row or ()) for row in table.column("headers").to_pylist()] == opened.headers()


@given(batches(), st.data())
def test_arrow_builds_the_same_as_lists(arguments: dict[str, Any], data: st.DataObject) -> None:
    known = {name: arguments[name] for name in ("values", "keys", "headers", "timestamps_ms") if name in arguments}
    count = len(known["values"])
    columns = {"value": pa.array(known["values"], data.draw(st.sampled_from([pa.binary(), pa.large_binary()])))}
    if "keys" in known:
        columns["key"] = pa.array(known["keys"], pa.binary())
    if "headers" in known:
        rows = [None if row is None else list(row.items()) for row in known["headers"]]
        columns["headers"] = pa.array(rows, HEADERS_TYPE)
    if "timestamps_ms" in known:
        columns["timestamp"] = pa.array(
            known["timestamps_ms"], data.draw(st.sampled_from([pa.int64(), pa.timestamp("ms")]))
        )
    whole = pa.table(columns)
    start = data.draw(st.integers(0, count - 1))
    length = data.draw(st.integers(1, count - start))
    part = whole.slice(start, length)
    if data.draw(st.booleans()):
        part = pa.concat_tables([part.slice(0, 1), part.slice(1)])
    opened = through_the_broker(build_frame_from_arrow(part, timestamp_ms=7))
    expected = {name: rows[start : start + length] for name, rows in known.items()}
    if "timestamps_ms" not in expected:
        expected["timestamp_ms"] = 7
    assert_holds(opened, expected)
