"""Packets survive any way of cutting the stream, and lengths are checked before memory is taken."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import ProtocolError, QuiverError, RequestTooLarge
from quiver.protocol.messages import Done, Ping, Produce, Produced
from quiver.protocol.packet import (
    PREFIX_BYTES,
    Packet,
    PacketReader,
    decode_request,
    decode_response,
    encode_packet,
)
from quiver.protocol.preface import PREFACE

LIMIT = 1 << 20

payloads = st.one_of(st.binary(max_size=40), st.integers(0, 5_000).map(lambda n: bytes(i % 251 for i in range(n))))


def stream_of(packets: list[tuple[int, bytes]]) -> bytes:
    return b"".join(
        encode_packet(correlation, Produce(correlation, 0, 3), len(payload)) + payload
        for correlation, payload in packets
    )


def seen(packets: list[Packet]) -> list[tuple[int, bytes]]:
    for packet in packets:
        assert decode_request(packet.message_bytes) == Produce(packet.correlation, 0, 3)
    return [(packet.correlation, bytes(packet.payload)) for packet in packets]


@given(
    packets=st.lists(st.tuples(st.integers(0, 2**32 - 1), payloads), max_size=12),
    cuts=st.lists(st.integers(1, 3_000), min_size=1, max_size=20),
    chunk_bytes=st.sampled_from([1, 64, 300, 4096, 65536]),
)
def test_packets_come_out_as_they_went_in(
    packets: list[tuple[int, bytes]], cuts: list[int], chunk_bytes: int
) -> None:
    reader = PacketReader(LIMIT, expect_preface=True, chunk_bytes=chunk_bytes)
    rest, out, turn = PREFACE + stream_of(packets), [], 0
    while rest:
        size = cuts[turn % len(cuts)]
        out += reader.feed(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert seen(out) == packets
    assert reader.is_between_packets


@given(payload_bytes=st.integers(1, 100_000), chunk_bytes=st.sampled_from([64, 4096, 65536]))
def test_payloads_are_aligned_in_memory(payload_bytes: int, chunk_bytes: int) -> None:
    reader = PacketReader(LIMIT, chunk_bytes=chunk_bytes)
    [packet] = reader.feed(encode_packet(1, Produce(300, 1, 70_000), payload_bytes) + bytes(payload_bytes))
    assert np.frombuffer(packet.payload, np.uint8).ctypes.data % 8 == 0


@pytest.mark.parametrize("size", [10, 500])
def test_a_payload_stays_as_it_is_while_more_is_received(size: int) -> None:
    reader = PacketReader(LIMIT, chunk_bytes=256)
    [first] = reader.feed(stream_of([(1, b"a" * size)]))
    for _ in range(20):
        reader.feed(stream_of([(2, b"b" * size)]))
    assert bytes(first.payload) == b"a" * size
    assert decode_request(first.message_bytes) == Produce(1, 0, 3)


def test_the_rest_of_a_large_packet_is_received_in_place() -> None:
    reader = PacketReader(LIMIT, chunk_bytes=256)
    data = stream_of([(1, b"x" * 100_000)])
    assert reader.feed(data[:200]) == []
    buffer = reader.get_buffer()
    assert len(buffer) == len(data) - 200
    buffer[:] = data[200:]
    [packet] = reader.received(len(buffer))
    assert bytes(packet.payload) == b"x" * 100_000
    assert np.shares_memory(np.frombuffer(packet.payload, np.uint8), np.frombuffer(buffer, np.uint8))


def test_a_length_over_the_limit_takes_no_memory() -> None:
    taken: list[int] = []

    def allocate(size: int) -> memoryview:
        taken.append(size)
        return memoryview(bytearray(size))

    reader = PacketReader(LIMIT, chunk_bytes=256, allocate=allocate)
    with pytest.raises(RequestTooLarge, match="4294967299 bytes is over the limit of 1048576") as caught:
        reader.feed(struct.pack("<III", 2**32 - 1, 77, 4))
    assert caught.value.details["correlation"] == 77
    assert taken == []
    with pytest.raises(RequestTooLarge):
        reader.get_buffer()


def test_the_limit_itself_is_allowed() -> None:
    message = encode_packet(1, Ping())
    whole = encode_packet(1, Ping(), LIMIT - len(message)) + bytes(LIMIT - len(message))
    assert len(whole) == LIMIT
    assert len(PacketReader(LIMIT).feed(whole)) == 1
    with pytest.raises(RequestTooLarge):
        PacketReader(LIMIT - 1).feed(whole[:PREFIX_BYTES])


@pytest.mark.parametrize(
    ("length", "message_length", "problem"),
    [
        (20, 13, "does not fit its packet"),
        (7, 0, "does not fit its packet"),
        (0, 0, "does not fit its packet"),
        (50_000, 40_000, "over the limit of 1000"),
        (20, 2**32 - 1, "does not fit its packet"),
    ],
)
def test_a_message_length_that_cannot_be(length: int, message_length: int, problem: str) -> None:
    reader = PacketReader(LIMIT, max_message_bytes=1000)
    with pytest.raises(ProtocolError, match=problem) as caught:
        reader.feed(struct.pack("<III", length, 9, message_length))
    assert caught.value.details["correlation"] == 9


def test_packets_before_a_bad_one_are_not_lost() -> None:
    reader = PacketReader(LIMIT)
    data = stream_of([(1, b"a"), (2, b"")]) + struct.pack("<III", 2**31, 3, 1)
    buffer = reader.get_buffer()
    buffer[: len(data)] = data
    assert [packet.correlation for packet in reader.received(len(data))] == [1, 2]
    with pytest.raises(RequestTooLarge):
        reader.get_buffer()
    with pytest.raises(RequestTooLarge):
        reader.received(0)


@given(st.binary(max_size=2_000), st.booleans(), st.booleans())
def test_arbitrary_bytes_raise_only_our_errors(data: bytes, expect_preface: bool, plausible: bool) -> None:
    largest = 0

    def allocate(size: int) -> memoryview:
        nonlocal largest
        largest = max(largest, size)
        return memoryview(bytearray(size))

    reader = PacketReader(10_000, expect_preface=expect_preface, chunk_bytes=128, allocate=allocate)
    try:
        for packet in reader.feed(struct.pack("<I", len(data) % 300) + data if plausible else data):
            try:
                decode_request(packet.message_bytes)
            except ProtocolError:
                decode_request(encode_packet(1, Ping())[PREFIX_BYTES:])
    except QuiverError:
        pass
    assert largest <= 10_000 + 64


def test_a_payload_that_no_length_field_can_hold_is_refused() -> None:
    with pytest.raises(RequestTooLarge):
        encode_packet(1, Ping(), 2**32)


def test_a_message_alone_is_a_packet() -> None:
    assert encode_packet(7, Ping()) == bytes.fromhex("0a000000 07000000 02000000 910c")
    [packet] = PacketReader(100).feed(encode_packet(5, Done()))
    assert (packet.correlation, decode_response(packet.message_bytes), len(packet.payload)) == (5, Done(), 0)


def test_an_response_is_not_a_request() -> None:
    with pytest.raises(ProtocolError, match="a request cannot be read"):
        decode_request(encode_packet(1, Produced(1, 2))[PREFIX_BYTES:])
    with pytest.raises(ProtocolError, match="a response cannot be read"):
        decode_response(encode_packet(1, Ping())[PREFIX_BYTES:])
