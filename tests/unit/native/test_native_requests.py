"""Requests in flight: begun in order, answered when ready, bounded; and the end of a connection."""

import asyncio
import logging
import socket

from quiver.gateways.native.gateway import NativeGateway
from quiver.model.errors import DiskFull
from quiver.partition.partition import Appended
from quiver.protocol.group_messages import GroupHeartbeat
from quiver.protocol.messages import Done, Failure, Fetch, FetchPart, Ping, Produce, Produced
from quiver.protocol.packet import encode_packet
from unit.native.native_client import FileSlice, NativeClient, until


def produce_packets(count: int, size: int = 10) -> bytes:
    return b"".join(
        encode_packet(number, Produce(1, 0, 0), size) + bytes([number % 256]) * size for number in range(1, count + 1)
    )


async def test_produce_is_begun_in_order_and_answered_when_ready(start_gateway, connect, broker):
    client = await connect(await start_gateway())
    await client.send_bytes(produce_packets(3))
    await until(lambda: len(broker.appends) == 3)
    assert [frame[0] for frame in broker.frames] == [1, 2, 3]
    broker.appends[1].set_result(Appended(20, 5))
    assert await client.response() == (2, Produced(20, 5))
    broker.appends[2].set_exception(DiskFull(problem="no room"))
    broker.appends[0].set_result(Appended(10, 5, True))
    responses = dict([await client.response(), await client.response()])
    assert responses[1] == Produced(10, 5, True)
    assert responses[3] == Failure("disk_full", DiskFull(problem="no room").message, True)


async def test_acks_none_gets_no_response_not_even_for_errors(start_gateway, connect, broker):
    client = await connect(await start_gateway())
    await client.send(Produce(1, 0, 0, acks=0), b"frame")
    await client.send(Produce(1, 0, 0, acks=0), b"frame")
    await client.send(Produce(404, 0, 0, acks=0), b"frame")
    await until(lambda: len(broker.appends) == 2)
    broker.appends[0].set_result(Appended(1, 1))
    broker.appends[1].set_exception(DiskFull(problem="no room"))
    assert await client.ask(Ping(), correlation=9) == Done()


async def test_errors_of_produce_become_responses(start_gateway, connect, broker, caplog):
    client = await connect(await start_gateway())
    assert (await client.ask(Produce(404, 0, 0), b"x")).code == "topic_not_found"
    assert (await client.ask(Produce(1, 0, 0, acks=5), b"x")).code == "invalid_request"
    with caplog.at_level(logging.ERROR):
        failure = await client.ask(Produce(500, 0, 0), b"x")
    assert (failure.code, "secret" in failure.message) == ("internal", False)
    assert "secret" in caplog.text
    assert broker.frames == []


async def test_a_cancelled_append_is_told_as_a_shutdown(start_gateway, connect, broker):
    client = await connect(await start_gateway())
    await client.send(Produce(1, 0, 0), b"frame")
    await until(lambda: broker.appends)
    broker.appends[0].cancel()
    assert (await client.response())[1].code == "shutting_down"


async def test_requests_in_flight_are_bounded(start_gateway, connect, broker):
    client = await connect(await start_gateway(requests_in_flight=4))
    await client.send_bytes(produce_packets(50))
    await until(lambda: len(broker.appends) >= 4)
    for done in range(50):
        await asyncio.sleep(0)
        assert len(broker.appends) <= done + 4
        await until(lambda done=done: len(broker.appends) > done)
        broker.appends[done].set_result(Appended(done, 1))
    assert [await client.response() for _ in range(50)] == [(n + 1, Produced(n, 1)) for n in range(50)]
    assert [frame[0] for frame in broker.frames] == list(range(1, 51))


async def test_bytes_in_flight_are_bounded(start_gateway, connect, broker):
    client = await connect(await start_gateway(request_bytes_in_flight=250_000))
    sending = asyncio.create_task(client.send_bytes(produce_packets(20, 100_000)))
    await until(lambda: len(broker.appends) == 3)
    for done in range(20):
        await until(lambda done=done: len(broker.appends) > done)
        assert len(broker.appends) <= done + 3
        broker.appends[done].set_result(Appended(done, 1))
        assert await client.response() == (done + 1, Produced(done, 1))
    await sending
    assert [len(frame) for frame in broker.frames] == [100_000] * 20


async def test_half_a_request_is_waited_for_and_then_dropped(start_gateway, connect, broker):
    gateway = await start_gateway(stall_seconds=0.1)
    client = await connect(gateway)
    idle = await connect(gateway)
    await client.send_bytes(produce_packets(1, 200_000)[:-1])
    correlation, failure = await client.response()
    assert (correlation, failure.code, failure.retryable) == (0, "slow_client", True)
    assert "1024 bytes per second" in failure.message
    assert await client.is_hung_up()
    assert broker.frames == []
    assert gateway.counts.clients_stalled == 1
    assert await idle.ask(Ping()) == Done()


async def test_a_client_that_hangs_up_halfway_leaves_nothing(start_gateway, connect, broker):
    gateway = await start_gateway()
    client = await connect(gateway)
    await client.send_bytes(produce_packets(1, 200_000)[:-1])
    client.close()
    await until(lambda: gateway.counts.connections_open == 0)
    assert broker.frames == []


async def test_what_was_begun_is_answered_after_the_client_stops_sending(start_gateway, connect, broker):
    client = await connect(await start_gateway())
    await client.send(Produce(1, 0, 0), b"frame", correlation=8)
    client.sock.shutdown(socket.SHUT_WR)
    await until(lambda: broker.appends)
    broker.appends[0].set_result(Appended(5, 1))
    assert await client.response() == (8, Produced(5, 1))
    assert await client.is_hung_up()


async def test_a_waiting_fetch_ends_when_its_client_goes(start_gateway, connect, broker):
    gateway = await start_gateway()
    broker.fetch_gate = asyncio.Event()
    client = await connect(gateway)
    await client.send(Fetch([FetchPart(1, 0, 0, 100)]))
    await until(lambda: broker.fetch_options)
    client.close()
    await until(lambda: broker.fetches_ended == 1)
    await until(lambda: gateway.counts.connections_open == 0)
    assert gateway.counts.failures == 0


async def test_stop_responses_what_was_begun_and_ends_waiting_fetches(start_gateway, connect, broker):
    gateway = await start_gateway()
    broker.fetch_gate = asyncio.Event()
    client = await connect(gateway)
    await client.send(Fetch([FetchPart(1, 0, 0, 100)]), correlation=3)
    await client.send(Produce(1, 0, 0), b"frame", correlation=4)
    await until(lambda: broker.appends and broker.fetch_options)
    stopping = asyncio.create_task(gateway.stop(10))
    assert (await client.response())[1].code == "shutting_down"
    broker.appends[0].set_result(Appended(5, 1))
    assert await client.response() == (4, Produced(5, 1))
    assert await client.is_hung_up()
    client.close()
    await stopping
    assert gateway.counts.connections_open == 0


async def test_a_waiting_heartbeat_is_no_sign_of_life_of_a_client_that_went(start_gateway, connect, broker):
    gateway = await start_gateway()
    client = await connect(gateway)
    await client.send(GroupHeartbeat("g", "m", 1, []))
    await until(lambda: broker.heartbeats == ["m waits"])
    client.close()
    await until(lambda: broker.heartbeats == ["m waits", "m is given up"])
    await until(lambda: gateway.counts.connections_open == 0)


async def test_stop_gives_up_heartbeats_that_only_wait(start_gateway, connect, broker):
    gateway = await start_gateway()
    client = await connect(gateway)
    await client.send(GroupHeartbeat("g", "waiter", 1, []), correlation=3)
    await client.send(GroupHeartbeat("g", "revoker", 1, [(1, 0)]), correlation=4)
    await until(lambda: len(broker.heartbeats) == 2)
    stopping = asyncio.create_task(gateway.stop(0.05))
    correlation, failure = await client.response()
    assert (correlation, failure.code) == (3, "shutting_down")
    assert await client.is_hung_up()
    await stopping
    assert broker.heartbeats == ["waiter waits", "revoker waits", "waiter is given up"]


async def test_stop_does_not_wait_longer_than_its_grace(start_gateway, connect, broker):
    gateway = await start_gateway()
    client = await connect(gateway)
    await client.send(Produce(1, 0, 0), b"frame")
    await until(lambda: broker.appends)
    await gateway.stop(0.01)
    assert await client.is_hung_up()
    broker.appends[0].set_result(Appended(5, 1))
    await gateway.stop(0.01)


async def test_any_connected_socket_can_be_served_without_a_port(broker):
    gateway = NativeGateway(broker)
    ours, theirs = socket.socketpair()
    gateway.serve_socket(theirs)
    client = NativeClient(ours)
    await client.greet()
    assert await client.ask(Ping()) == Done()
    ours.close()
    await until(lambda: gateway.counts.connections_open == 0)
    await gateway.stop()
    ours, theirs = socket.socketpair()
    gateway.serve_socket(theirs)
    assert (await NativeClient(ours).response())[1].code == "shutting_down"
    ours.close()


async def test_counts_tell_what_went_through(start_gateway, connect, broker):
    gateway = await start_gateway()
    client = await connect(gateway)
    await client.ask(Ping())
    await client.ask(Produce(404, 0, 0), b"x" * 1000)
    counts = gateway.counts
    assert (counts.connections_open, counts.connections_total, counts.requests, counts.failures) == (1, 1, 3, 1)
    assert counts.bytes_received > 1000
    assert counts.bytes_sent > 100


async def test_an_response_that_cannot_be_encoded_becomes_a_failure(start_gateway, connect, broker):
    """Every request is answered, and what the response held is let go."""
    broker.slices = [FileSlice(b"x" * 100, in_file=True)]
    fetch = broker.fetch

    async def fetch_beyond(parts, options):
        return [found._replace(high_watermark=2**64) for found in await fetch(parts, options)]

    broker.fetch = fetch_beyond
    client = await connect(await start_gateway())
    await client.send(Fetch([FetchPart(1, 0, 0, 100)]), correlation=7)
    correlation, failure = await client.response()
    assert (correlation, failure.code) == (7, "internal")
    assert await client.ask(Ping()) == Done()
    assert [piece.releases for piece in broker.slices] == [1]
