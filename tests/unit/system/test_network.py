"""TCP connections as Quiver makes them."""

import asyncio
import socket

import pytest

from quiver.model.errors import InvalidSetting
from quiver.system.network import TcpNetwork, tune


async def test_what_is_dialed_arrives_at_the_listener() -> None:
    network = TcpNetwork()
    (listener, *others), port = await network.listen("127.0.0.1", 0)
    dialed = await network.dial("127.0.0.1", port, 5.0)
    loop = asyncio.get_running_loop()
    accepted, _ = await loop.sock_accept(listener)
    await loop.sock_sendall(dialed, b"hello")
    assert await loop.sock_recv(accepted, 5) == b"hello"
    for sock in (dialed, accepted, listener, *others):
        sock.close()


async def test_a_port_that_is_taken_is_a_setting_that_does_not_work() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidSetting, match="cannot listen"):
            await TcpNetwork().listen("127.0.0.1", taken.getsockname()[1])


async def test_a_port_where_nobody_listens_refuses() -> None:
    network = TcpNetwork()
    (listener, *others), port = await network.listen("127.0.0.1", 0)
    for sock in (listener, *others):
        sock.close()
    with pytest.raises(ConnectionRefusedError):
        await network.dial("127.0.0.1", port, 5.0)


async def test_a_peer_that_is_gone_without_a_word_is_noticed() -> None:
    network = TcpNetwork()
    (listener, *others), port = await network.listen("127.0.0.1", 0)
    dialed = await network.dial("127.0.0.1", port, 5.0)
    tune(dialed)
    assert dialed.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert dialed.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20
    assert dialed.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    for sock in (dialed, listener, *others):
        sock.close()


def test_a_socket_pair_has_no_options_of_tcp() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tune(ours)
