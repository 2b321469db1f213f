"""Opening stored frames, alone and in a row."""

import pyarrow as pa
import pytest

from quiver.model.errors import FrameTooLarge, InvalidFrame
from quiver.model.limits import Limits
from quiver.records.build import build_frame, build_frame_from_arrow
from quiver.records.columns import HEADERS_TYPE
from quiver.records.header import HEADER_BYTES, unpack_header
from quiver.records.read import open_frame, split_frames
from unit.records.frame_content import changed, stored

FRAME = stored(build_frame([b"a" * 50, b"b" * 50], keys=[b"k", None], timestamp_ms=5), 100)


def test_values_are_read_in_place() -> None:
    opened = open_frame(FRAME)
    start = pa.py_buffer(FRAME).address
    data = opened.batch.column("value").buffers()[2]
    assert start + HEADER_BYTES < data.address < start + len(FRAME)
    assert opened.to_arrow().column("value").buffers()[2].address == data.address


@pytest.mark.parametrize("shift", range(8))
def test_a_frame_is_read_at_any_address(shift: int) -> None:
    opened = open_frame(memoryview(bytes(shift) + FRAME + b"more"), shift)
    assert opened.values() == [b"a" * 50, b"b" * 50]
    assert opened.offsets() == range(100, 102)


def test_what_is_read_outlives_the_buffer() -> None:
    buffer = bytearray(FRAME)
    opened = open_frame(buffer)
    with pytest.raises(BufferError):
        buffer.clear()
    del buffer
    assert opened.values() == [b"a" * 50, b"b" * 50]


def test_absent_columns_read_as_nothing() -> None:
    opened = open_frame(stored(build_frame([b"a", b"b"], timestamp_ms=5)))
    assert opened.keys() == opened.ids() == opened.deliver_at_ms() == opened.expires_at_ms() == [None, None]
    assert opened.timestamps() == [5, 5]
    headers = opened.headers()
    assert headers == [{}, {}]
    assert headers[0] is not headers[1]
    table = opened.to_arrow()
    assert table.column("key").null_count == table.column("headers").null_count == 2


def test_headers_may_be_null_and_names_come_twice() -> None:
    rows = pa.array([[("a", b"1"), ("a", b"2")], None, []], HEADERS_TYPE)
    frame = build_frame_from_arrow(pa.table({"value": [b""] * 3, "headers": rows}), timestamp_ms=1)
    assert open_frame(stored(frame)).headers() == [{"a": b"2"}, {}, {}]


def test_an_unstamped_frame_opens_without_verification_only() -> None:
    frame = build_frame([b"a"], timestamp_ms=5)
    assert open_frame(frame, verify=False).values() == [b"a"]
    with pytest.raises(InvalidFrame, match="header checksum"):
        open_frame(frame)


@pytest.mark.parametrize("size", range(len(FRAME)))
def test_a_frame_cut_anywhere_is_refused(size: int) -> None:
    with pytest.raises(InvalidFrame):
        open_frame(FRAME[:size])


def test_decompression_is_bounded() -> None:
    frame = stored(build_frame([bytes(1000)] * 100, timestamp_ms=5, compression="zstd"))
    assert len(open_frame(frame).values()) == 100
    with pytest.raises(FrameTooLarge):
        open_frame(frame, limits=Limits(frame_bytes=50_000))
    large = stored(build_frame([bytes(100_000)], timestamp_ms=5))
    assert len(open_frame(large, limits=Limits(frame_bytes=50_000))) == 1


@pytest.mark.parametrize("fields", [{"attributes": 1 << 5}, {"attributes": 1 << 4}, {"columns": 1 << 9}])
def test_bodies_of_later_versions_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InvalidFrame):
        open_frame(stored(changed(FRAME, **fields)))


def test_frames_in_a_row() -> None:
    frames = [stored(build_frame([b"x" * size] * size, timestamp_ms=5), size * 10) for size in (1, 2, 30)]
    found = list(split_frames(memoryview(b"".join(frames))))
    assert [position for position, _ in found] == [0, len(frames[0]), len(frames[0]) + len(frames[1])]
    assert [header for _, header in found] == [unpack_header(frame) for frame in frames]
    assert list(split_frames(b"")) == []


@pytest.mark.parametrize("cut", [1, 8, 87, 88, 89, len(FRAME) - 1])
def test_a_last_frame_that_is_cut_off_is_left_out(cut: int) -> None:
    assert [position for position, _ in split_frames(FRAME + FRAME[:cut])] == [0]


def test_a_bad_header_in_a_row_is_refused_when_it_is_reached() -> None:
    bad = bytearray(FRAME)
    bad[10] ^= 1
    frames = split_frames(FRAME + bytes(bad))
    assert next(frames)[0] == 0
    with pytest.raises(InvalidFrame):
        next(frames)
