import pyarrow as pa
import pytest

from quiver.client.produce.chunk import SEALED_CHUNK, Chunk, Outgoing
from quiver.client.produce.route import Route
from quiver.records.columns import EXPIRES_AT, HEADERS, KEY, TIMESTAMP, VALUE


def outgoing(value=b"v", key=None, headers=None, timestamp=None, expires=None) -> Outgoing:
    return Outgoing(value, key, headers, timestamp, expires)


def test_columns_begin_where_they_are_first_needed():
    chunk = Chunk("t", Route(2, None))
    chunk.timestamp_ms = 5
    assert chunk.add(outgoing(b"a"), 1) == 0
    assert chunk.add(outgoing(b"b", key=b"k", headers={"h": b"1"}, timestamp=7, expires=9), 3) == 1
    assert chunk.add(outgoing(None), 0) == 2
    chunk.seal()
    rows = chunk.rows()
    assert rows.arrays[VALUE.bit].to_pylist() == [b"a", b"b", None]
    assert rows.arrays[KEY.bit].to_pylist() == [None, b"k", None]
    assert rows.arrays[HEADERS.bit].to_pylist() == [None, [("h", b"1")], None]
    assert rows.arrays[TIMESTAMP.bit].to_pylist() == [5, 7, 5]
    assert rows.arrays[EXPIRES_AT.bit].to_pylist() == [None, 9, None]


def test_window_fits_the_kind_of_messages():
    chunk = Chunk("t", Route(2, None))
    chunk.add(outgoing(b"a" * 100), 100)
    chunk.open_window(1000, 100)
    assert (chunk.plain_until, chunk.keyed_until) == (10, 0)
    chunk.add(outgoing(b"a", key=b"k"), 2)
    chunk.open_window(1000, 4)
    assert (chunk.plain_until, chunk.keyed_until) == (0, 4)
    chunk.add(outgoing(b"a", headers={"x": b""}), 2)
    chunk.open_window(1000, 100)
    assert (chunk.plain_until, chunk.keyed_until) == (0, 29)
    chunk.add(outgoing(b"a", timestamp=7), 1)
    chunk.open_window(1000, 100)
    assert (chunk.plain_until, chunk.keyed_until) == (0, 0)


def test_messages_without_headers_may_follow_one_that_has_some():
    chunk = Chunk("t", Route(2, None))
    chunk.add(outgoing(b"a"), 1)
    chunk.add(outgoing(b"b", headers={"x": b"1", "y": b"2"}), 3)
    chunk.open_window(100, 100)
    chunk.values += [b"c", b"d"]
    chunk.add(outgoing(b"e", headers={"z": b"3"}), 2)
    chunk.values.append(b"f")
    chunk.seal()
    headers = chunk.rows().arrays[HEADERS.bit]
    headers.validate(full=True)
    assert headers.to_pylist() == [None, [("x", b"1"), ("y", b"2")], None, None, [("z", b"3")], None]


def test_what_was_appended_without_a_call_is_measured():
    chunk = Chunk("t", Route(2, None))
    chunk.add(outgoing(b"aa", key=b"k"), 3)
    chunk.values.append(b"bbbb")
    chunk.keys.append(b"kk")
    assert chunk.measure() == 9


def test_a_message_appended_after_the_seal_is_not_kept():
    chunk = Chunk("t", Route(2, None))
    chunk.add(outgoing(b"a"), 1)
    chunk.open_window(100, 100)
    chunk.seal()
    chunk.values.append(b"late")
    assert chunk.keeps(0)
    assert not chunk.keeps(1)
    assert chunk.rows().arrays[VALUE.bit].to_pylist() == [b"a"]


def test_a_message_appended_to_a_closed_window_is_taken_out():
    chunk = Chunk("t", Route(2, None))
    chunk.add(outgoing(b"a", key=b"k"), 2)
    chunk.keys.append(b"late")
    chunk.values.append(b"late")
    assert not chunk.keeps(1)
    assert (chunk.values, chunk.keys) == ([b"a"], [b"k"])


def test_the_first_chunk_of_a_thread_takes_nothing():
    assert SEALED_CHUNK.is_sealed
    assert SEALED_CHUNK.plain_until == SEALED_CHUNK.keyed_until == 0


def test_a_message_appended_while_the_rows_are_built_is_not_in(monkeypatch: pytest.MonkeyPatch):
    chunk = Chunk("t", Route(2, None))
    chunk.add(outgoing(b"a"), 1)
    chunk.seal()
    values = chunk.values

    def build(items, kind):
        values.append(b"too late")
        return pa.array(items, kind)

    monkeypatch.setattr("quiver.client.produce.rows.list_array", build)
    assert len(chunk.rows()) == 1
