"""The gateway on a real port: what clients do wrong on the wire, and how it starts and stops."""

import asyncio
import contextlib
import json
import signal
import socket
import threading
from collections.abc import Callable

import pytest
import uvloop

from quiver.gateways.http import HttpGateway
from quiver.gateways.http.settings import HttpSettings
from quiver.gateways.http.wire import connection as http_connection
from quiver.gateways.http.wire import server as http_server
from quiver.gateways.http.wire.server import HttpServer
from quiver.model.limits import HTTP_HEAD_BYTES, KIB, MIB, Limits
from quiver.model.message import NewMessage
from quiver.system.memory_budget import MemoryBudget
from unit.gateways.fake_broker import FakeBroker

PUBLISH = b'{"messages": [{"value": "a"}]}'
CHECK_SECONDS = 0.05


@pytest.fixture
async def broker():
    fake = FakeBroker(Limits(request_bytes=256 * KIB))
    fake.add_topic("orders")
    return fake


@contextlib.asynccontextmanager
async def serving(broker: FakeBroker, **options):
    gateway = HttpGateway(broker, port=0, **options)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop(grace=0.5)


@pytest.fixture
async def gateway(broker):
    async with serving(broker) as gateway:
        yield gateway


class Client:
    """A connection that sends what a well-behaved client would not."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int, receive_bytes: int | None = None) -> "Client":
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        return cls(*await asyncio.open_connection(sock=sock, limit=2**16))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1]), headers, body

    async def closed(self) -> bool:
        """Waits for the other side to close, and says whether it did."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while await self.reader.read(2**16):
                    pass
        return True

    def close(self) -> None:
        self.writer.close()


def post(body: bytes, *headers: str, path: str = "/topics/orders/messages") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"QUIVER\x00\x01",
        b"\r\n\r\n\x00",
        b"GET\r\n\r\n",
    ],
    ids=["tls", "native", "nul", "half"],
)
async def test_what_is_not_http_gets_an_object_and_the_end(gateway, garbage):
    client = await Client.connect(gateway.port)
    await client.send(garbage)
    status, headers, body = await client.response()
    assert (status, headers["content-type"]) == (400, "application/json")
    assert json.loads(body)["code"] == "invalid_request"
    assert await client.closed()


async def test_a_head_without_end_is_refused(gateway):
    client = await Client.connect(gateway.port)
    await client.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
    with contextlib.suppress(ConnectionError):
        for _ in range(2 * HTTP_HEAD_BYTES // 1000):
            await client.send(b"x-header: " + b"y" * 1000 + b"\r\n")
            await asyncio.sleep(0)
    assert await client.closed()


async def test_a_body_over_the_limit_is_answered_while_it_is_still_sent(gateway, broker):
    client = await Client.connect(gateway.port)
    body = b" " * 5_000_000
    await client.send(post(body))
    status, _, response = await client.response()
    assert (status, json.loads(response)["code"]) == (413, "request_too_large")
    await client.send(post(PUBLISH))
    assert (await client.response())[0] == 200, "the rest of the body was thrown away, the connection lives on"
    client.close()


async def test_a_client_that_asks_first_is_told_before_it_sends(gateway):
    client = await Client.connect(gateway.port)
    await client.send(post(b" " * 5_000_000, "expect: 100-continue").partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    assert (await client.response())[0] == 413
    client.close()


async def test_many_requests_share_a_connection_also_when_sent_at_once(gateway, broker):
    client = await Client.connect(gateway.port)
    await client.send(post(PUBLISH) * 20)
    responses = [await client.response() for _ in range(20)]
    assert [json.loads(body)["results"][0]["offset"] for _, _, body in responses] == list(range(20))
    client.close()


async def test_old_clients_and_wishes_for_an_upgrade_are_served(gateway):
    client = await Client.connect(gateway.port)
    await client.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    assert (await client.response())[0] == 200
    client.close()
    client = await Client.connect(gateway.port)
    await client.send(b"GET /health HTTP/1.0\r\n\r\n")
    assert (await client.response())[0] == 200
    assert await client.closed()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /hea", post(PUBLISH)[:-5]], ids=["nothing", "half a head", "half a body"]
)
async def test_a_silent_client_is_cut_off(broker, sent):
    async with serving(broker, settings=HttpSettings(stall_seconds=0.1)) as gateway:
        client = await Client.connect(gateway.port)
        await client.send(sent)
        assert await client.closed()
    assert broker.published == []


async def until(check: Callable[[], object]) -> None:
    """Lets the gateway run until something is so."""
    async with asyncio.timeout(10):
        while not check():
            await asyncio.sleep(0)


async def fill(broker: FakeBroker, count: int = 1000, size: int = 10_000) -> None:
    await broker.publish("orders", [NewMessage(value=b"x" * size) for _ in range(count)])


GET_MUCH = b"GET /topics/orders/messages?limit=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def test_a_client_that_does_not_read_is_cut_off(broker):
    await fill(broker)
    async with serving(broker, settings=HttpSettings(stall_seconds=0.2)) as gateway:
        client = await Client.connect(gateway.port, receive_bytes=4096)
        client.writer.transport.pause_reading()
        await client.send(GET_MUCH)
        state = gateway._server
        await until(lambda: state.tasks)
        await until(lambda: not state.connections)
        client.close()


async def test_a_slow_reader_gets_everything_as_long_as_it_reads(broker):
    await fill(broker, 300)
    async with serving(broker, settings=HttpSettings(stall_seconds=0.5)) as gateway:
        client = await Client.connect(gateway.port, receive_bytes=4096)
        await client.send(GET_MUCH.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nconnection: close\r\n"))
        size = 0
        async with asyncio.timeout(30):
            while piece := await client.reader.read(2**16):
                size += len(piece)
                await asyncio.sleep(0)
        assert size > 300 * 10_000


async def test_responses_that_wait_for_slow_readers_are_bounded_in_all(broker):
    """1 MiB may be held: the page one client leaves unread takes more than that."""
    await fill(broker, 500, 10_000)
    budget = MemoryBudget(MIB)
    async with serving(broker, budget=budget) as gateway:
        slow = await Client.connect(gateway.port, receive_bytes=4096)
        slow.writer.transport.pause_reading()
        await slow.send(GET_MUCH)
        await until(lambda: budget.held_bytes)
        other = await Client.connect(gateway.port)
        await other.send(GET_MUCH)
        status, headers, body = await other.response()
        assert (status, json.loads(body)["code"], headers["retry-after"]) == (503, "overloaded", "1")
        slow.writer.transport.abort()
        await until(lambda: not budget.held_bytes)
        other.close()


async def test_connections_are_bounded(broker, monkeypatch):
    monkeypatch.setattr(HttpServer, "max_connections", 2)
    async with serving(broker) as gateway:
        clients = [await Client.connect(gateway.port) for _ in range(2)]
        for client in clients:
            await client.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await client.response())[0] == 200
        third = await Client.connect(gateway.port)
        status, _, body = await third.response()
        assert (status, json.loads(body)["code"]) == (503, "overloaded")
        for client in [*clients, third]:
            client.close()


async def test_a_stop_lets_a_request_under_way_finish(broker):
    broker.gate = asyncio.Event()
    gateway = HttpGateway(broker, port=0)
    await gateway.start()
    client = await Client.connect(gateway.port)
    await client.send(post(PUBLISH))
    await broker.waiting.wait()
    stopping = asyncio.create_task(gateway.stop(grace=10))
    await asyncio.sleep(0)
    broker.gate.set()
    assert (await client.response())[0] == 200
    await stopping
    assert await client.closed()


async def test_a_stop_does_not_wait_for_ever(broker):
    broker.gate = asyncio.Event()
    gateway = HttpGateway(broker, port=0)
    await gateway.start()
    client = await Client.connect(gateway.port)
    await client.send(post(PUBLISH))
    await broker.waiting.wait()
    async with asyncio.timeout(10):
        await gateway.stop(grace=0.2)
        assert await client.closed()


async def test_start_and_stop_may_be_repeated_and_install_no_signal_handlers(broker):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    gateway = HttpGateway(broker, port=0)
    await gateway.stop()
    await gateway.start()
    port = gateway.port
    await gateway.start()
    assert gateway.port == port
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    await gateway.stop()
    await gateway.stop()


async def test_a_port_that_is_taken_is_an_error_of_the_system(gateway, broker):
    with pytest.raises(OSError, match="in use"):
        await HttpGateway(broker, port=gateway.port).start()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_request_that_came_while_the_process_was_paused_gets_its_response(run, monkeypatch):
    """In the pause the connection was idle for long enough to be closed; the request came before its end."""
    monkeypatch.setattr(http_server, "_CHECK_EVERY_S", CHECK_SECONDS)

    async def paused() -> None:
        broker = FakeBroker()
        broker.add_topic("orders")
        async with serving(broker) as gateway:
            other, sock = await Client.connect(gateway.port), socket.create_connection(("127.0.0.1", gateway.port))
            client, publish = Client(*await asyncio.open_connection(sock=sock)), broker.begin_publish
            await client.send(post(PUBLISH))
            assert (await client.response())[0] == 200

            def pause(*arguments):
                broker.begin_publish = publish
                sock.send(post(PUBLISH))
                monkeypatch.setattr(http_connection, "HTTP_IDLE_SECONDS", 0)
                threading.Event().wait(2 * CHECK_SECONDS)
                return publish(*arguments)

            broker.begin_publish = pause
            await other.send(post(PUBLISH))
            assert (await client.response())[0] == 200
            for each in (client, other):
                assert await each.closed()
                each.close()

    run(paused())
