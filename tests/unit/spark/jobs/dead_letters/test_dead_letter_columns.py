"""From the headers of messages to the columns of dead letters."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.dead_letters.headers import read_dead_letter
from quiver.messages.stored_rows import StoredRow
from quiver.model.message import NewMessage
from quiver.structures.interval_set import IntervalSet
from quiver_spark.jobs.dead_letters.columns import DEAD_LETTER_COLUMNS, columns_in, dead_letter_batch, message_columns
from quiver_spark.jobs.dead_letters.transforms import Selection, without_removed
from quiver_spark.source.columns import MESSAGE_SCHEMA

AT = datetime(2026, 1, 31, tzinfo=UTC)
Headers = dict[str, bytes] | None
HEADERS: list[Headers] = [
    {
        "dlq.topic": b"orders",
        "dlq.partition": b"3",
        "dlq.offset": b"123456789012",
        "dlq.group": b"g",
        "dlq.reason": b"expired",
        "dlq.error": "zu spät".encode(),
        "dlq.attempts": b"4",
        "dlq.appended_at": b"2026-01-31T12:00:00.123Z",
        "dlq.first_delivered": b"2026-01-31T13:00:00.000Z",
        "own": b"\xff",
        "dlq.own": b"",
    },
    {"dlq.topic": b"orders", "dlq.error": b"\xff\xfe", "dlq.attempts": b"-4", "dlq.offset": b"9" * 30},
    {"dlq.attempts": b"many", "dlq.partition": b"", "dlq.appended_at": b"noon", "dlq.reason": b"\x00"},
    None,
]
TEXTS = st.binary(max_size=4) | st.sampled_from([b"0", b"12", b"2147483648", b"9" * 18, b"2026-01-31T12:00:00Z"])
FIELDS = ("topic", "partition", "offset", "group", "reason", "error", "attempts", "appended_at", "first_delivered")
NAMES = st.sampled_from([*(f"dlq.{field}" for field in FIELDS), "dlq.ttl", "dlq.own", "own"])


def messages(headers: Sequence[Headers]) -> pa.RecordBatch:
    rows = [
        {"topic": "orders.dlq", "partition": 1, "offset": number, "timestamp": AT, "append_time": AT, "key": b"k"}
        | {"value": b"v", "headers": None if each is None else list(each.items()), "priority": "low"}
        for number, each in enumerate(headers)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def test_what_headers_say() -> None:
    found = dead_letter_batch(messages(HEADERS)).to_pylist()
    assert [row["id"] for row in found] == ["1:0", "1:1", "1:2", "1:3"]
    first = found[0]
    assert (first["topic"], first["partition"], first["offset"], first["attempts"]) == ("orders", 3, 123456789012, 4)
    assert (first["group"], first["reason"], first["error"]) == ("g", "expired", "zu spät")
    assert (first["appended_at"], first["first_delivered"], first["died_at"]) == (
        datetime(2026, 1, 31, 12, 0, 0, 123000, UTC),
        datetime(2026, 1, 31, 13, tzinfo=UTC),
        AT,
    )
    assert first["headers"] == [("own", b"\xff"), ("dlq.own", b"")]
    assert (first["key"], first["value"], first["timestamp"], first["priority"]) == (b"k", b"v", AT, "low")
    absent = ("partition", "offset", "attempts", "appended_at", "first_delivered", "group")
    for row in found[1:]:
        assert [row[name] for name in absent] == [None] * len(absent)
        assert row["topic"] == "orders", "named or not"


@given(st.lists(st.none() | st.dictionaries(NAMES, TEXTS)), st.integers(0, 3))
def test_letters_are_what_the_broker_takes_them_for(headers: list[Headers], cut: int) -> None:
    """In a batch that is part of another, too."""
    for row in dead_letter_batch(messages(headers).slice(cut)).to_pylist():
        message = NewMessage(value=b"v", key=b"k", headers=headers[row["dlq_offset"]])
        dead_letter = read_dead_letter(1, StoredRow(row["dlq_offset"], round(AT.timestamp() * 1000), 0, message))
        assert (row["dlq_topic"], row["id"]) == ("orders.dlq", str(dead_letter.id))
        texts = (dead_letter.group, dead_letter.reason, dead_letter.last_error)
        assert tuple(row[name] or "" for name in ("group", "reason", "error")) == texts
        assert (row["attempts"] or 0) == (dead_letter.attempts if dead_letter.attempts < 2**31 else 0)
        assert dict(row["headers"] or {}) == dead_letter.headers
        original = dead_letter.original
        if original is not None and original.partition < 2**31:
            place = (original.topic, original.partition, original.offset)
            assert (row["topic"], row["partition"], row["offset"]) == place
            times = (original.appended_at_ms, original.first_delivered_ms)
            assert tuple(_ms(row[name]) for name in ("appended_at", "first_delivered")) == times


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def test_only_what_is_asked_for_is_made() -> None:
    narrow = ("dlq_offset", "died_at")
    assert message_columns(narrow) == ("topic", "partition", "offset", "append_time")
    batch = messages(HEADERS).select(list(message_columns(narrow)))
    assert dead_letter_batch(batch, narrow).schema.names == list(narrow)
    assert message_columns(["error", "id"]) == ("topic", "partition", "offset", "headers")
    assert set(message_columns(DEAD_LETTER_COLUMNS)) == set(MESSAGE_SCHEMA.names)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (None, set()),
        ("Error LIKE '%x%' AND `group`='g'", {"error", "group"}),
        ("length(value)>3 or headers['a'] is null", {"value", "headers"}),
        ("errors = 1 or my_key = 2", set()),
        ("to_json(struct(*)) like '%x%'", set(DEAD_LETTER_COLUMNS)),
    ],
)
def test_what_an_expression_looks_at(sql: str | None, columns: set[str]) -> None:
    assert columns_in(sql) == columns
    assert Selection(sql, reasons=("expired",)).columns() == columns | {"reason"}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=4), st.integers(0, 10))
def test_what_was_removed_is_left_out(runs: list[tuple[int, int]], count: int) -> None:
    removed = IntervalSet((start, start + length) for start, length in runs)
    left = without_removed(messages([None] * count), removed)
    assert left.column("offset").to_pylist() == [offset for offset in range(count) if offset not in removed]
