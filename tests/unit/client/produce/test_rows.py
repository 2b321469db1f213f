import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.client.produce.options import BatchLimits
from quiver.client.produce.rows import Rows, renumbered
from quiver.model.errors import InvalidRequest, MessageTooLarge
from quiver.model.limits import Limits
from quiver.records.arrow_message import BytesList
from quiver.records.check import check_frame
from quiver.records.columns import VALUE
from quiver.records.read import open_frame
from quiver.structures.murmur2 import partition_for
from quiver.structures.reused_buffers import ReusedBuffers

LIMITS = Limits()


@given(st.lists(st.binary(max_size=60), min_size=1), st.integers(1, 200), st.integers(1, 20))
def test_cuts_cover_all_rows_within_the_limits(values: list[bytes], max_bytes: int, max_count: int):
    rows = Rows.from_lists(values, timestamp_ms=1)
    cuts = list(rows.cuts(BatchLimits(max_bytes, max_count), 1000))
    assert [start for start, _, _ in cuts] == [0, *(stop for _, stop, _ in cuts[:-1])]
    assert cuts[-1][1] == len(values)
    for start, stop, size in cuts:
        assert size == sum(map(len, values[start:stop]))
        assert stop - start <= max_count
        assert size <= max_bytes or stop == start + 1


def test_a_message_over_its_limit_is_refused():
    rows = Rows.from_lists([b"x" * 11], keys=[b"k" * 10], timestamp_ms=1)
    with pytest.raises(MessageTooLarge):
        list(rows.cuts(BatchLimits(100, 100), 20))


def test_keys_decide_and_null_keys_stick():
    keys = [b"a", None, b"b", b"c", None]
    rows = Rows.from_lists([b"v"] * 5, keys=keys, timestamp_ms=1)
    expected = [4 if key is None else partition_for(key, 7) for key in keys]
    assert rows.partitions(7, 4).tolist() == expected


def test_sealed_frames_pass_the_broker_whatever_their_columns():
    rows = Rows.from_lists(
        [b"a", b"b", None],
        keys=[None, b"k", None],
        headers=[None, {"h": b"1"}, None],
        timestamps_ms=[5, None, 9],
        expires_at_ms=[None, 50, None],
        timestamp_ms=7,
    )
    for part in (rows, rows.slice(0, 1), rows.slice(1, 3), rows.take(np.array([2, 0]))):
        check_frame(part.seal(priority=1), LIMITS)
    frame = open_frame(rows.seal(), verify=False)
    assert frame.timestamps() == [5, 7, 9]
    assert frame.headers() == [{}, {"h": b"1"}, {}]
    assert frame.expires_at_ms() == [None, 50, None]


def test_columns_that_say_nothing_are_left_out():
    rows = Rows.from_lists([b"a", b"b"], keys=[None, b"k"], timestamps_ms=[5, 6], timestamp_ms=1)
    assert check_frame(rows.slice(0, 1).seal(), LIMITS).columns == 0


def test_renumbering_changes_nothing_but_the_identity():
    frame = Rows.from_lists([b"a", b"b"], timestamp_ms=3).seal(producer_id=1, producer_epoch=0, base_sequence=9)
    other = renumbered(frame, producer_id=1, producer_epoch=4, base_sequence=0)
    header = check_frame(other, LIMITS)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 4, 0)
    assert open_frame(other, verify=False).values() == [b"a", b"b"]


def test_rows_of_a_frame_are_those_it_was_built_from():
    rows = Rows.from_lists([b"a", b"b"], keys=[b"x", None], headers=[{"n": b"v"}, None], timestamp_ms=3)
    back = Rows.from_frame(rows.seal())
    assert {bit: array.to_pylist() for bit, array in back.arrays.items()} == {
        bit: array.to_pylist() for bit, array in rows.arrays.items()
    }
    assert back.timestamp_ms == 3


def test_arrow_tables_become_rows():
    table = pa.table({"value": ["a", "b"], "key": [None, "k"], "timestamp": [4, 4]})
    rows = Rows.from_arrow(table, 1)
    assert (len(rows), rows.timestamp_ms, rows.has_hashes) == (2, 4, True)


def test_what_is_no_bytes_is_refused():
    with pytest.raises(InvalidRequest, match="value"):
        Rows.from_lists([b"a", 5], timestamp_ms=1)  # type: ignore[list-item]


LARGE = [bytes([number]) * size for number, size in enumerate((600, 512, 0, 2000, 700, 512))]


def test_large_values_are_left_where_they_are_until_the_frame_is_built():
    rows = Rows.from_lists(LARGE, timestamp_ms=3)
    assert isinstance(rows.arrays[VALUE.bit], BytesList)
    assert rows.sizes().tolist() == [len(value) for value in LARGE]
    assert len(rows) == len(LARGE)
    for start, stop in ((0, 6), (0, 2), (1, 4), (2, 3), (5, 6)):
        frame = rows.slice(start, stop).seal(producer_id=1, producer_epoch=0, base_sequence=0)
        assert check_frame(frame, LIMITS).record_count == stop - start
        assert open_frame(frame, verify=False).values() == LARGE[start:stop]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_frames_in_reused_memory_are_the_same(compression: str):
    buffers = ReusedBuffers(2)
    values = [bytes([number % 251]) * 1000 for number in range(300)]
    plain = Rows.from_lists(values, timestamp_ms=3).seal(compression=compression)
    frames = [Rows.from_lists(values, timestamp_ms=3).seal(buffers, compression=compression) for _ in range(4)]
    assert all(frame == plain for frame in frames)
    check_frame(frames[0], LIMITS)


@pytest.mark.parametrize("other", [None, bytearray(b"b" * 600), memoryview(b"m" * 600)])
def test_values_that_are_not_all_bytes_become_an_array(other: object):
    rows = Rows.from_lists([b"a" * 600, other], timestamp_ms=3)  # type: ignore[list-item]
    assert open_frame(rows.seal(), verify=False).values() == [b"a" * 600, None if other is None else bytes(other)]  # type: ignore[call-overload]


def test_large_values_with_the_other_columns():
    rows = Rows.from_lists(
        LARGE, headers=[{"h": b"1"}] * 6, timestamps_ms=list(range(6)), expires_at_ms=[9, None] * 3, timestamp_ms=3
    )
    frame = open_frame(rows.slice(1, 5).seal(), verify=False)
    assert frame.values() == LARGE[1:5]
    assert frame.timestamps() == [1, 2, 3, 4]
    assert frame.headers() == [{"h": b"1"}] * 4
