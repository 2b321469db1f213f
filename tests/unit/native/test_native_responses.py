"""Fetch responses: exact bytes from files and memory, released once, and a client that does not read."""

import asyncio
import errno
import os
import random
import socket

import pytest
import uvloop

from quiver.gateways.native.gateway import NativeGateway
from quiver.gateways.native.settings import NativeSettings
from quiver.messages.fetch import FetchOptions
from quiver.protocol.messages import Done, Fetch, Fetched, FetchPart, GetMetadata, Ping
from quiver.protocol.packet import decode_response, encode_packet
from unit.native.native_client import FileSlice, NativeClient, ScriptedBroker, until

SIZES = [0, 1, 88, 5_000_000, 17, 3_000_000]


def slices_of(sizes: list[int]) -> tuple[list[FileSlice], bytes]:
    """Slices that lie alternately in files and in memory, and all their bytes."""
    datas = [random.Random(size).randbytes(size) for size in sizes]
    return [FileSlice(data, in_file=index % 2 == 1) for index, data in enumerate(datas)], b"".join(datas)


def fetch_of(count: int) -> Fetch:
    return Fetch([FetchPart(1, number, 0, 100) for number in range(count)])


async def check_exact(client: NativeClient, broker: ScriptedBroker) -> None:
    broker.slices, expected = slices_of(SIZES)
    await client.send(fetch_of(len(SIZES)), correlation=5)
    await client.send(Ping(), correlation=6)
    packet = await client.packet()
    if packet.correlation == 6:
        packet = await client.packet()
    response = decode_response(packet.message_bytes)
    assert isinstance(response, Fetched)
    assert [part.length for part in response.parts] == SIZES
    assert [(part.log_start, part.high_watermark, part.epoch) for part in response.parts] == [(1, 2, 3)] * len(SIZES)
    assert bytes(packet.payload) == expected
    assert [piece.releases for piece in broker.slices] == [1] * len(SIZES)


async def test_payloads_are_exact_and_released(start_gateway, connect, broker):
    await check_exact(await connect(await start_gateway()), broker)


async def test_over_a_socket_pair(broker):
    gateway = NativeGateway(broker)
    ours, theirs = socket.socketpair()
    gateway.serve_socket(theirs)
    client = NativeClient(ours)
    await client.greet()
    await check_exact(client, broker)
    ours.close()
    await gateway.stop()


def test_under_uvloop():
    async def run() -> None:
        broker = ScriptedBroker()
        gateway = NativeGateway(broker)
        await gateway.start()
        client = await NativeClient.connect(gateway.port)
        await client.greet()
        await check_exact(client, broker)
        client.close()
        await gateway.stop()

    uvloop.run(run())


async def test_where_the_file_system_has_no_sendfile(start_gateway, connect, broker, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "sendfile", refuse)
    await check_exact(await connect(await start_gateway()), broker)


async def test_waits_and_sizes_are_clamped(start_gateway, connect, broker):
    client = await connect(await start_gateway())
    await client.ask(Fetch([], max_wait_ms=2**60, min_bytes=5, max_bytes=2**60))
    assert broker.fetch_options == FetchOptions(300_000, min_bytes=5, max_bytes=broker.limits.fetch_bytes)
    await client.ask(Fetch([], max_wait_ms=-5, min_bytes=-1, max_bytes=-1))
    assert (broker.fetch_options.max_wait_ms, broker.fetch_options.max_bytes) == (0, 0)


async def test_a_client_that_does_not_read_is_bounded_and_then_dropped(start_gateway, connect, broker):
    gateway = await start_gateway(stall_seconds=0.2, response_bytes_queued=30_000_000)
    client = await connect(gateway)
    other = await connect(gateway)
    slices: list[FileSlice] = []
    for _ in range(10):
        broker.slices = [FileSlice(bytes(8_000_000))]
        slices += broker.slices
        before = broker.fetches_ended
        await client.send(fetch_of(1))
        await asyncio.sleep(0.01)
        if broker.fetches_ended == before:
            break
    assert len(slices) < 10, "requests are read although nobody takes the responses"
    await until(lambda: gateway.counts.clients_stalled == 1)
    await until(lambda: gateway.counts.connections_open == 1)
    assert [piece.releases for piece in slices[: broker.fetches_ended]] == [1] * broker.fetches_ended
    assert await other.ask(Ping()) == Done()


async def test_a_flood_of_responses_from_memory_is_bounded_too(start_gateway, connect):
    gateway = await start_gateway(stall_seconds=0.2, response_bytes_queued=100_000, requests_in_flight=50)
    client = await connect(gateway)
    flood = b"".join(encode_packet(number, GetMetadata(["x" * 200] * 40)) for number in range(200))

    async def send_forever() -> None:
        while True:
            await client.send_bytes(flood)

    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        await asyncio.wait_for(send_forever(), 20)
    assert gateway.counts.clients_stalled == 1


async def test_a_slow_reader_gets_everything(start_gateway, connect, broker):
    client = await connect(await start_gateway(response_bytes_queued=100_000))
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    for round_number in range(20):
        data = random.Random(round_number).randbytes(50_000)
        broker.slices = [FileSlice(data, in_file=round_number % 2 == 0)]
        await client.send(fetch_of(1), correlation=round_number)
        packet = await client.packet()
        assert (packet.correlation, bytes(packet.payload)) == (round_number, data)


@pytest.mark.parametrize("in_file", [True, False])
async def test_slices_are_released_when_the_client_is_gone(start_gateway, connect, broker, in_file):
    gateway = await start_gateway()
    client = await connect(gateway)
    broker.slices = [FileSlice(bytes(20_000_000), in_file=in_file), FileSlice(b"never sent")]
    await client.send(fetch_of(2))
    await until(lambda: gateway.counts.bytes_sent > 100_000)
    client.close()
    await until(lambda: gateway.counts.connections_open == 0)
    assert [piece.releases for piece in broker.slices] == [1, 1]


async def test_slices_that_come_after_the_client_went_are_released(start_gateway, connect, broker):
    gateway = await start_gateway()
    broker.fetch_gate = asyncio.Event()
    client = await connect(gateway)
    await client.send(fetch_of(1))
    await until(lambda: broker.fetch_options)
    piece = FileSlice(b"late")
    broker.slices = [piece]
    broker.fetch_gate.set()
    client.close()
    await until(lambda: gateway.counts.connections_open == 0)
    await until(lambda: broker.fetches_ended == 1)
    assert piece.releases == broker.slices_given


@pytest.mark.parametrize("in_file", [True, False])
async def test_stored_bytes_that_end_early_end_the_connection(start_gateway, connect, broker, in_file):
    client = await connect(await start_gateway())
    broker.slices = [FileSlice(b"short", in_file=in_file, claims=50)]
    await client.send(fetch_of(1))
    assert await client.is_hung_up()
    assert broker.slices[0].releases == 1


async def test_a_fast_reader_does_not_keep_the_loop(broker):
    gateway = NativeGateway(broker, settings=NativeSettings())
    await gateway.start()
    client = await NativeClient.connect(gateway.port)
    await client.greet()
    broker.slices = [FileSlice(bytes(30_000_000))]
    await client.send(fetch_of(1))
    other = await NativeClient.connect(gateway.port)
    await other.greet()
    reading = asyncio.create_task(client.packet())
    turns = 0
    while not reading.done():
        await other.ask(Ping())
        turns += 1
    assert turns > 3
    client.close()
    other.close()
    await gateway.stop()
