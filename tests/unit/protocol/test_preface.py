"""A wrong peer is told what it did wrong, as soon as that can be known."""

import pytest

from quiver.model.errors import ProtocolError, UnsupportedVersion
from quiver.protocol.messages import Ping
from quiver.protocol.packet import PacketReader, encode_packet
from quiver.protocol.preface import PREFACE, preface_problem

TLS_HELLO = bytes.fromhex("16030102000100 01fc0303")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (TLS_HELLO, "began with TLS"),
        (b"GET / HTTP/1.1\r\n", "speaks HTTP"),
        (b"POST /v1 HTTP/1.1", "speaks HTTP"),
        (b"PRI * HTTP/2.0", "speaks HTTP"),
        (b"\x00\x00\x00\x12\x00\x12\x00\x04", "begins with b'QUIVER"),
        (b"hello\n", "this one began with b'hello"),
        (b"QUIVER 1", "this one began with b'QUIVER 1'"),
        (b"\xff", "this one began with"),
    ],
)
def test_wrong_protocols_are_named(start: bytes, words: str) -> None:
    problem = preface_problem(start)
    assert isinstance(problem, ProtocolError)
    assert words in problem.message


def test_a_later_packet_format_is_a_version_problem() -> None:
    problem = preface_problem(b"QUIVER\x00\x02")
    assert isinstance(problem, UnsupportedVersion)
    assert "packet format 2" in problem.message


@pytest.mark.parametrize("length", range(len(PREFACE) + 1))
def test_a_beginning_of_the_preface_is_no_problem_yet(length: int) -> None:
    assert preface_problem(PREFACE[:length]) is None


def test_http_is_recognised_only_when_its_method_is_whole() -> None:
    assert preface_problem(b"GE") is None
    assert preface_problem(b"GET ") is not None
    assert preface_problem(b"GEX") is not None


def test_the_reader_waits_for_the_preface_byte_by_byte() -> None:
    reader = PacketReader(1000, expect_preface=True)
    for byte in PREFACE:
        assert not reader.is_between_packets
        assert reader.feed(bytes([byte])) == []
    assert reader.is_between_packets
    assert len(reader.feed(encode_packet(1, Ping()))) == 1


def test_the_reader_refuses_a_wrong_start() -> None:
    reader = PacketReader(1000, expect_preface=True)
    with pytest.raises(ProtocolError, match="TLS"):
        reader.feed(TLS_HELLO)
