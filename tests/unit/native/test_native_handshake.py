"""How a connection begins, and how it does not."""

import struct

import pytest

from quiver.model.errors import InvalidSetting
from quiver.model.limits import Limits
from quiver.protocol.messages import Done, Failure, GetMetadata, Hello, Metadata, Ping, Welcome
from quiver.protocol.packet import encode_packet
from quiver.protocol.preface import PREFACE
from unit.native.native_client import HELLO

TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(500)


async def test_welcome_says_what_the_broker_can_do(start_gateway, connect):
    client = await connect(await start_gateway(), greet=False)
    welcome = await client.greet()
    limits = Limits()
    assert welcome == Welcome(
        1,
        "scripted",
        ["none", "lz4", "zstd"],
        ["arrow"],
        limits.request_bytes,
        limits.frame_bytes,
        limits.message_bytes,
        "quiver",
    )


async def test_requests_may_follow_the_hello_at_once(start_gateway, connect):
    client = await connect(await start_gateway(), greet=False)
    await client.send_bytes(
        PREFACE + encode_packet(1, HELLO) + encode_packet(2, Ping()) + encode_packet(3, GetMetadata())
    )
    assert [(await client.response())[0] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("start", "code", "words"),
    [
        (TLS_HELLO, "protocol_error", "TLS"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "protocol_error", "HTTP"),
        (b"nonsense", "protocol_error", "nonsense"),
        (b"QUIVER\x00\x09", "unsupported_version", "packet format 9"),
    ],
)
async def test_a_wrong_start_gets_one_clear_failure(start_gateway, connect, start, code, words):
    client = await connect(await start_gateway(), greet=False)
    await client.send_bytes(start)
    correlation, failure = await client.response()
    assert isinstance(failure, Failure)
    assert (correlation, failure.code) == (0, code)
    assert words in failure.message
    assert await client.is_hung_up()


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (Ping(), "protocol_error"),
        (Hello([2, 3], ["none"], ["arrow"]), "unsupported_version"),
        (Hello([], ["none"], ["arrow"]), "unsupported_version"),
        (Hello([1], ["none"], ["morse"]), "unsupported_version"),
    ],
)
async def test_a_wrong_first_request_ends_the_connection(start_gateway, connect, first, code):
    client = await connect(await start_gateway(), greet=False)
    await client.send_bytes(PREFACE + encode_packet(5, first) + encode_packet(6, Ping()))
    correlation, failure = await client.response()
    assert (correlation, failure.code) == (5, code)
    assert await client.is_hung_up()


async def test_a_client_that_never_greets_is_disconnected(start_gateway, connect):
    gateway = await start_gateway(handshake_seconds=0.05)
    silent = await connect(gateway, greet=False)
    halfway = await connect(gateway, greet=False)
    await halfway.send_bytes(PREFACE[:3])
    for client in (silent, halfway):
        _, failure = await client.response()
        assert "no handshake within 0.05 s" in failure.message
        assert await client.is_hung_up()


async def test_a_second_hello_is_an_error_and_no_end(start_gateway, connect):
    client = await connect(await start_gateway())
    failure = await client.ask(HELLO, correlation=2)
    assert failure.code == "protocol_error"
    assert await client.ask(Ping(), correlation=3) == Done()


async def test_unreadable_and_unknown_requests_are_answered_and_the_connection_goes_on(start_gateway, connect):
    client = await connect(await start_gateway())
    for correlation, message in enumerate([b"\x91\x63", b"\xc1", b"", b"\x92\x07\x05"], start=10):
        await client.send_bytes(struct.pack("<III", 8 + len(message), correlation, len(message)) + message)
        answered, failure = await client.response()
        assert (answered, failure.code) == (correlation, "protocol_error")
    assert await client.ask(GetMetadata()) == Metadata([], [])


async def test_only_produce_carries_a_payload(start_gateway, connect):
    client = await connect(await start_gateway())
    failure = await client.ask(Ping(), b"surplus")
    assert (failure.code, "carries no payload" in failure.message) == ("protocol_error", True)


async def test_an_oversized_length_is_refused_with_its_correlation(start_gateway, connect):
    client = await connect(await start_gateway())
    await client.send_bytes(struct.pack("<III", 2**32 - 1, 42, 3))
    correlation, failure = await client.response()
    assert (correlation, failure.code) == (42, "request_too_large")
    assert await client.is_hung_up()


async def test_requests_before_a_bad_length_are_answered(start_gateway, connect):
    client = await connect(await start_gateway())
    await client.send_bytes(encode_packet(1, Ping()) + struct.pack("<III", 4, 2, 3))
    responses = dict([await client.response(), await client.response()])
    assert responses[1] == Done()
    assert responses[2].code == "protocol_error"
    assert await client.is_hung_up()


async def test_too_many_connections_are_turned_away(start_gateway, connect):
    gateway = await start_gateway(connections=2)
    for _ in range(2):
        await connect(gateway)
    client = await connect(gateway, greet=False)
    correlation, failure = await client.response()
    assert (correlation, failure.code, failure.retryable) == (0, "overloaded", True)
    assert await client.is_hung_up()
    assert (gateway.counts.connections_open, gateway.counts.connections_refused) == (2, 1)


async def test_a_port_in_use_is_a_clear_error(start_gateway, broker):
    from quiver.gateways.native.gateway import NativeGateway

    gateway = await start_gateway()
    with pytest.raises(InvalidSetting, match=rf"cannot listen on 127.0.0.1:{gateway.port}: Address already in use"):
        await NativeGateway(broker, port=gateway.port).start()
    with pytest.raises(InvalidSetting, match=r"cannot listen on no such host:0"):
        await NativeGateway(broker, host="no such host").start()
