"""The entry check: what it takes, and what it refuses with which error."""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quiver.model.errors import FrameTooLarge, InvalidFrame, MessageTooLarge
from quiver.model.limits import KIB, MIB, Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.columns import MAX_TIMESTAMP_MS
from quiver.records.header import HEADER_BYTES, PADDING_SHIFT, FrameHeader, unpack_header
from unit.records.frame_content import changed, sealed

LIMITS = Limits()
PLAIN = build_frame([b"a", b"bb", None], timestamp_ms=5)
KEYED = build_frame([b"a", b"b", b"c"], keys=[b"k", None, b"l"], timestamps_ms=[3, 1, 2], headers=[{"n": b"v"}] * 3)


def refused(frame: bytes, match: str, limits: Limits = LIMITS) -> None:
    with pytest.raises(InvalidFrame, match=match):
        check_frame(frame, limits)


def body_of(frame: bytes) -> bytes:
    return frame[HEADER_BYTES:]


def with_batch(batch: pa.RecordBatch, like: bytes, **fields: Any) -> bytes:
    """A frame with the body of this batch and the header of another frame."""
    body = batch.serialize().to_pybytes()
    header = unpack_header(like)._replace(length=len(body), uncompressed_length=len(body), **fields)
    return sealed(header, body)


def array_of(kind: pa.DataType, length: int, buffers: list[bytes | None], null_count: int = 0) -> pa.Array:
    held = [None if data is None else pa.py_buffer(data) for data in buffers]
    return pa.Array.from_buffers(kind, length, held, null_count)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_a_good_frame_gives_its_header(wrap: type) -> None:
    header = check_frame(wrap(PLAIN), LIMITS)
    assert isinstance(header, FrameHeader)
    assert (header.record_count, header.last_offset_delta, header.priority) == (3, 2, 2)


def test_a_frame_may_lie_at_an_odd_address() -> None:
    for shift in range(8):
        buffer = bytearray(shift) + KEYED
        assert check_frame(memoryview(buffer)[shift:], LIMITS) == unpack_header(KEYED)


@pytest.mark.parametrize("size", [0, 1, 87])
def test_too_short_for_a_header(size: int) -> None:
    refused(PLAIN[:size], "at least 88 bytes")


def test_the_length_must_be_exact() -> None:
    refused(PLAIN[:-8], "bytes of body")
    refused(PLAIN + bytes(8), "bytes of body")
    refused(changed(PLAIN, length=2**32 - 1), "bytes of body")


def test_a_frame_without_body() -> None:
    refused(sealed(unpack_header(PLAIN)._replace(length=0, uncompressed_length=0), b""), "no body")


def test_magic_and_version() -> None:
    refused(b"QX" + PLAIN[2:], "QV")
    refused(b"QV\x02" + PLAIN[3:], "version 2")


def test_the_limits_of_frames() -> None:
    big = build_frame([bytes(2000)], timestamp_ms=1)
    with pytest.raises(FrameTooLarge, match="limit of 1024"):
        check_frame(big, Limits(frame_bytes=KIB))
    packed = build_frame([bytes(200_000)], timestamp_ms=1, compression="zstd")
    assert len(packed) < KIB
    with pytest.raises(FrameTooLarge):
        check_frame(packed, Limits(frame_bytes=100_000))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("claim", [-1, 1, 8, 1000, 100_000])
def test_a_wrong_uncompressed_length(compression: str, claim: int) -> None:
    frame = build_frame([b"abc" * 100], timestamp_ms=1, compression=compression)
    length = unpack_header(frame).uncompressed_length + claim
    refused(changed(frame, uncompressed_length=length), "decompress")


def test_a_wrong_uncompressed_length_without_compression() -> None:
    refused(changed(PLAIN, uncompressed_length=8), "do not match")


@pytest.mark.parametrize("compression", [1, 2])
def test_bytes_that_are_not_compressed(compression: int) -> None:
    refused(changed(PLAIN, attributes=compression), "decompressed")


def test_the_limits_of_messages() -> None:
    two = build_frame([bytes(700 * KIB)] * 2, timestamp_ms=1)
    assert check_frame(two, LIMITS).record_count == 2
    with pytest.raises(MessageTooLarge, match=f"{700 * KIB} bytes is over the limit of {600 * KIB}"):
        check_frame(two, LIMITS, max_message_bytes=600 * KIB)
    with pytest.raises(MessageTooLarge):
        check_frame(build_frame([bytes(MIB + 1)], timestamp_ms=1), LIMITS)
    check_frame(build_frame([bytes(2 * MIB)], timestamp_ms=1), LIMITS, max_message_bytes=2 * MIB)


@pytest.mark.parametrize("spare", [0, -1])
def test_a_message_is_its_key_its_value_its_headers_and_its_id(spare: int) -> None:
    frame = build_frame(
        [b"v" * 1000, b"", b"w" * 500],
        keys=[b"k" * 100, None, b""],
        headers=[None, {"a" * 10: b"b" * 1990, "c": b"d" * 99}, {}],
        ids=[b"i" * 200, None, None],
        timestamp_ms=1,
    )
    largest = 10 + 1990 + 1 + 99
    if spare < 0:
        with pytest.raises(MessageTooLarge, match=f"message of {largest} bytes"):
            check_frame(frame, LIMITS, max_message_bytes=largest + spare)
    else:
        check_frame(frame, LIMITS, max_message_bytes=largest)


def test_a_flipped_bit_in_the_body() -> None:
    refused(PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]), "body checksum")


@pytest.mark.parametrize("field", ["base_offset", "leader_epoch", "append_time_ms", "header_crc"])
def test_the_fields_of_the_broker_are_zero(field: str) -> None:
    refused(changed(PLAIN, **{field: 1}), "must be zero")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"priority": 5}, "priority 5"),
        ({"attributes": 1 << 12}, "attributes"),
        ({"attributes": 0b11}, "attributes"),
        ({"attributes": 1 << 4}, "encrypted"),
        ({"attributes": 1 << 5}, "encoding 1"),
        ({"attributes": 1 << 3}, "control"),
        ({"attributes": 1 << 2}, "producer id"),
        ({"columns": 1 << 7}, "columns"),
        ({"columns": 1 << 6}, "compaction"),
        ({"columns": 1}, "buffers"),
        ({"record_count": 0, "last_offset_delta": 0}, "at least one"),
        ({"record_count": 4, "last_offset_delta": 3}, "has 3 messages"),
        ({"last_offset_delta": 3}, "offset delta"),
        ({"producer_id": -2}, "negative"),
        ({"producer_id": 1}, "negative"),
        ({"producer_epoch": 0}, "producer id"),
        ({"base_sequence": 0}, "producer id"),
        ({"min_timestamp_ms": 4}, "the same"),
        ({"min_timestamp_ms": 6}, "in order"),
        ({"min_timestamp_ms": -1}, "1970"),
        ({"max_timestamp_ms": MAX_TIMESTAMP_MS + 1}, "9999"),
    ],
)
def test_header_fields_that_make_no_sense(fields: dict[str, int], match: str) -> None:
    refused(changed(PLAIN, **fields), match)


def test_control_frames_are_taken_where_they_are_expected() -> None:
    frame = build_frame([b""], timestamp_ms=1, control=True)
    refused(frame, "control")
    assert check_frame(frame, LIMITS, allow_control=True).is_control


@pytest.mark.parametrize("fields", [{"min_timestamp_ms": 0}, {"max_timestamp_ms": 4}, {"min_timestamp_ms": 2}])
def test_the_timestamps_of_the_header_are_true(fields: dict[str, int]) -> None:
    refused(changed(KEYED, **fields), "not those of the messages")


def test_times_of_delivery_and_expiry_are_within_range() -> None:
    good = build_frame([b"", b""], timestamp_ms=1, deliver_at_ms=[None, 5])
    column = pa.array([None, MAX_TIMESTAMP_MS + 1], pa.int64())
    batch = pa.record_batch([pa.array([b"", b""]), column], names=["value", "deliver_at"])
    refused(with_batch(batch, good), "deliver_at")
    nothing = pa.record_batch([pa.array([b"", b""]), pa.nulls(2, pa.int64())], names=["value", "deliver_at"])
    check_frame(with_batch(nothing, good), LIMITS)


def test_padding_is_zero_and_short() -> None:
    frame = build_frame([b"abc" * 100], timestamp_ms=1, compression="zstd")
    header = unpack_header(frame)
    assert header.padding
    refused(sealed(header, frame[HEADER_BYTES:-1] + b"\x01"), "zeros")
    cut = body_of(frame)[: header.length - header.padding]
    refused(sealed(header._replace(length=len(cut), attributes=2), cut), "padded")
    longer = header._replace(attributes=header.attributes ^ 1 << PADDING_SHIFT)
    refused(sealed(longer, body_of(frame)), "zeros|decompress")


def test_arrow_buffer_compression_is_refused() -> None:
    batch = pa.record_batch([pa.array([bytes(100_000)])], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    body = reader.read_next_message().serialize().to_pybytes()
    header = unpack_header(build_frame([b""], timestamp_ms=1))
    refused(sealed(header._replace(length=len(body), uncompressed_length=len(body)), body), "buffer compression")


def test_other_arrow_messages_are_refused() -> None:
    body = pa.schema([pa.field("value", pa.binary())]).serialize().to_pybytes()
    header = unpack_header(PLAIN)
    refused(
        sealed(header._replace(length=len(body), uncompressed_length=len(body)), body), "not an Arrow record batch"
    )


def test_bytes_behind_the_arrow_message_are_refused() -> None:
    body = body_of(PLAIN) + bytes(8)
    header = unpack_header(PLAIN)._replace(length=len(body), uncompressed_length=len(body))
    refused(sealed(header, body), "does not end where the body ends")


def test_offsets_that_point_outside_are_refused() -> None:
    offsets = struct.pack("<4i", 0, 1, 2**31 - 1, 3)
    bad = array_of(pa.binary(), 3, [None, offsets, b"abc"])
    refused(with_batch(pa.record_batch([bad], names=["value"]), PLAIN), "not sound Arrow data")


def test_offsets_that_go_back_are_refused() -> None:
    offsets = struct.pack("<4i", 0, 3, 1, 3)
    bad = array_of(pa.binary(), 3, [None, offsets, b"abc"])
    refused(with_batch(pa.record_batch([bad], names=["value"]), PLAIN), "not sound Arrow data")


def test_nulls_where_none_are_allowed_are_refused() -> None:
    values = pa.array([b"", b"", b""])
    like = build_frame([b""] * 3, timestamps_ms=[1, 2, 3])
    times = pa.array([1, None, 3], pa.int64())
    refused(with_batch(pa.record_batch([values, times], names=["value", "timestamp"]), like), "nulls")
    like = build_frame([b""] * 3, timestamp_ms=1, headers=[{"a": b"b"}] * 3)
    headers = pa.array([[("a", None)]] * 3, pa.map_(pa.string(), pa.binary()))
    refused(with_batch(pa.record_batch([values, headers], names=["value", "headers"]), like), "nulls")


def test_header_names_are_text() -> None:
    like = build_frame([b""], timestamp_ms=1, headers=[{"a": b"b"}])
    names = array_of(pa.string(), 1, [None, struct.pack("<2i", 0, 1), b"\xff"])
    headers = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), names, pa.array([b"b"]))
    refused(with_batch(pa.record_batch([pa.array([b""]), headers], names=["value", "headers"]), like), "UTF8|UTF-8")


def test_columns_that_share_their_bytes_are_refused() -> None:
    frame = build_frame([b"x" * 64], keys=[b"y" * 64], timestamp_ms=1)
    body = bytearray(body_of(frame))
    places = np.frombuffer(body, "<i8")
    # The data buffers of key and value are the only ones of 64 bytes: the value's is put over the key's.
    first, second = (at for at in np.flatnonzero(places == 64) if places[at - 1] in (8, 80))
    places[second - 1] = places[first - 1]
    refused(sealed(unpack_header(frame), bytes(body)), "follow one another")
