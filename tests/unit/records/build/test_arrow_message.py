"""The pieces of a message against what Arrow itself writes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.records.arrow_message import BytesList, bytes_list, message_of
from quiver.records.columns import DELIVER_AT, HEADERS, KEY, OFFSET_DELTA, TIMESTAMP, VALUE, Column, layout_for

BINARY = st.lists(st.binary(max_size=40), min_size=1, max_size=20)


def batch_of(arrays: dict[int, pa.Array]) -> pa.RecordBatch:
    layout = layout_for(sum(arrays))
    return pa.RecordBatch.from_arrays([arrays[column.bit] for column in layout.columns], schema=layout.schema)


def joined(arrays: dict[int, pa.Array | BytesList]) -> bytes:
    message = message_of(arrays, sum(arrays))
    assert message is not None
    data = b"".join(message.pieces)
    assert len(data) == message.size_bytes
    return data


def full(column: Column, items: list[object]) -> pa.Array:
    return pa.array(items, column.field.type)


@given(BINARY)
def test_it_is_what_arrow_writes(values: list[bytes]):
    arrays = {
        VALUE.bit: full(VALUE, values),
        KEY.bit: full(KEY, values[::-1]),
        TIMESTAMP.bit: full(TIMESTAMP, list(range(len(values)))),
        OFFSET_DELTA.bit: full(OFFSET_DELTA, list(range(len(values)))),
    }
    for bits in ((VALUE,), (VALUE, KEY), (VALUE, TIMESTAMP), (VALUE, KEY, TIMESTAMP, OFFSET_DELTA)):
        some = {column.bit: arrays[column.bit] for column in bits}
        assert joined(some) == batch_of(some).serialize().to_pybytes()


@given(BINARY)
def test_a_list_of_bytes_is_the_same_as_an_array(values: list[bytes]):
    column = bytes_list(values, 0)
    assert column is not None
    assert joined({VALUE.bit: column}) == joined({VALUE.bit: full(VALUE, values)})


@given(BINARY, st.data())
def test_slices_hold_their_rows(values: list[bytes], data: st.DataObject):
    start = data.draw(st.integers(0, len(values) - 1))
    count = data.draw(st.integers(1, len(values) - start))
    times = full(DELIVER_AT, list(range(len(values))))
    column = bytes_list(values, 0)
    assert column is not None
    for value in (full(VALUE, values), column):
        arrays = {VALUE.bit: value.slice(start, count), DELIVER_AT.bit: times.slice(start, count)}
        batch = pa.ipc.read_record_batch(pa.py_buffer(joined(arrays)), layout_for(sum(arrays)).schema)
        batch.validate(full=True)
        assert batch.column(0).to_pylist() == values[start : start + count]
        assert batch.column(1).to_pylist() == list(range(start, start + count))


@pytest.mark.parametrize(
    "arrays",
    [
        {VALUE.bit: full(VALUE, [b"a", None])},
        {VALUE.bit: full(VALUE, [])},
        {VALUE.bit: pa.array(["text"])},
        {VALUE.bit: full(VALUE, [b"a"]), KEY.bit: full(KEY, [b"a", b"b"])},
        {VALUE.bit: full(VALUE, [b"a"]), HEADERS.bit: full(HEADERS, [[("a", b"b")]])},
    ],
)
def test_the_rest_is_left_to_arrow(arrays: dict[int, pa.Array]):
    assert message_of(arrays, sum(arrays)) is None


def test_a_list_is_taken_when_all_are_bytes_and_large():
    assert bytes_list([b"aaaa", b""], 2) is not None
    assert bytes_list([b"aaa", b""], 2) is None
    assert bytes_list([b"aaaa", None], 0) is None
    assert bytes_list([b"aaaa", bytearray(b"b")], 0) is None
    assert bytes_list([], 0) is None


def test_no_column_is_over_what_arrow_can_count():
    ends = np.array([0, 2**31], np.int64)
    assert message_of({VALUE.bit: BytesList([b"as if it were large"], ends)}, 0) is None
