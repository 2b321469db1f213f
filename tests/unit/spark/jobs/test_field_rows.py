"""What a profile counts of single messages."""

import pyarrow as pa

from quiver_spark.jobs.profile.field_rows import field_rows
from quiver_spark.source.columns import MESSAGE_SCHEMA


def counted(*values: bytes | None) -> dict[tuple[str, str], tuple[int, float | None, float | None]]:
    schema = pa.schema([MESSAGE_SCHEMA.field(name) for name in ("key", "value", "headers", "priority")])
    rows = [{"key": None, "value": value, "headers": [("h", b"1")], "priority": "normal"} for value in values]
    found: dict[tuple[str, str], tuple[int, float | None, float | None]] = {}
    for row in next(field_rows(iter([pa.RecordBatch.from_pylist(rows, schema)]))).to_pylist():
        count, low, high = found.get((row["column"], row["kind"]), (0, row["low"], row["high"]))
        lows, highs = [each for each in (low, row["low"]) if each is not None], [high, row["high"]]
        high = max((each for each in highs if each is not None), default=None)
        found[row["column"], row["kind"]] = (count + row["count"], min(lows, default=None), high)
    return found


def test_types_and_bounds() -> None:
    found = counted(
        b'{"n": 1, "s": "ab", "o": {"i": [1, 2]}}',
        b'{"n": 2.5, "s": null, "o": {"i": true}}',
        b'{"n": 123456789012345678901234567890}',
        b"plain",
        b"\xff",
        None,
        b"[]",
    )
    assert found["value", "json object"][0] == 3
    assert found["value", "json array"] == (1, 2, 2)
    assert found["value", "string"] == (1, 5, 5)
    assert found["value", "binary"][0] == found["value", "null"][0] == 1
    assert found["value.n", "integer"] == (2, 1.0, 123456789012345678901234567890.0)
    assert found["value.n", "float"] == (1, 2.5, 2.5)
    assert found["value.s", "string"] == (1, 2, 2)
    assert found["value.s", "null"][0] == 1
    assert found["value.o.i", "array"] == (1, 2, 2)
    assert found["value.o.i", "boolean"][0] == 1
    assert found["headers.h", "string"][0] == found["key", "null"][0] == found["priority", "string"][0] == 7
