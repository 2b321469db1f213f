"""Connections between simulated processes."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.system.sockets import BUFFER_BYTES
from quiver.testing.simulation.world import World


class Pair:
    """A server that takes what comes, and a client that dials it."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = SimulatedNetwork(self.world)
        self.errors: list[str] = []
        self.server = SimulatedLoop(self.world, "server", self.errors.append)
        self.client = SimulatedLoop(self.world, "client", self.errors.append)
        self.listener = self.network.listen("server", "server", 1)
        self.received = bytearray()
        self.ends: list[str] = []
        self.is_done = False

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        accepted = loop.create_future()
        loop.add_reader(
            self.listener.fileno(), lambda: accepted.done() or accepted.set_result(self.listener.accept())
        )
        sock, _ = await accepted
        buffer = bytearray(1000)
        try:
            while count := await loop.sock_recv_into(cast(socket.socket, sock), buffer):
                self.received += buffer[:count]
            self.ends.append("end")
        except ConnectionResetError:
            self.ends.append("reset")
        sock.close()

    def run(self, work: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> None:
        async def dial() -> None:
            sock = await self.network.of("client").dial("server", 1, 5.0)
            await work(sock)
            self.is_done = True

        self.server.call_soon(lambda: self.server.create_task(self.serve()))
        self.client.call_soon(lambda: self.client.create_task(dial()))
        self.world.run(lambda: self.is_done and bool(self.ends), at_most_seconds=60)
        self.world.discard()
        assert not self.errors


def test_bytes_arrive_in_order_and_then_the_end() -> None:
    pair, sent = Pair(), bytes(range(256)) * 5000

    async def send(sock: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(sock, sent)
        sock.close()

    assert len(sent) > BUFFER_BYTES
    pair.run(send)
    assert pair.received == sent
    assert pair.ends == ["end"]


def test_a_full_buffer_holds_the_sender_up() -> None:
    pair, counts = Pair(), list[int]()

    async def send(sock: socket.socket) -> None:
        counts.append(sock.send(bytes(2 * BUFFER_BYTES)))
        with pytest.raises(BlockingIOError):
            sock.send(b"more")
        sock.close()

    pair.run(send)
    assert counts == [BUFFER_BYTES]


def test_a_cut_connection_breaks_at_both_ends() -> None:
    pair = Pair()

    async def send(sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(sock, b"hello")
        pair.world.later(1, pair.network.cut_one)
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv_into(sock, bytearray(10))
        with pytest.raises(ConnectionResetError):
            sock.send(b"more")

    pair.run(send)
    assert pair.received == b"hello"
    assert pair.ends == ["reset"]


def test_a_process_that_is_gone_refuses_and_breaks_what_it_had() -> None:
    pair = Pair()

    async def send(sock: socket.socket) -> None:
        pair.network.end_of("server")
        pair.ends.append("gone")
        with pytest.raises(ConnectionResetError):
            await asyncio.get_running_loop().sock_recv_into(sock, bytearray(10))
        with pytest.raises(ConnectionRefusedError):
            await pair.network.of("client").dial("server", 1, 5.0)

    pair.run(send)
