"""TCP connections as Quiver makes them."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import pytest

from quiver.client import _backend_sync
from quiver.model.errors import InvalidSetting
from quiver.system.network import TcpNetwork, tune

Dial = Callable[[str, int, float], Awaitable[socket.socket]]


async def _dial_async(host: str, port: int, timeout: float) -> socket.socket:
    return await TcpNetwork().dial(host, port, timeout)


async def _dial_sync(host: str, port: int, timeout: float) -> socket.socket:
    return await asyncio.to_thread(_backend_sync.TcpNetwork().dial, host, port, timeout)


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


@pytest.mark.parametrize("dial", [_dial_async, _dial_sync])
async def test_a_name_with_several_addresses_is_tried_address_by_address(
    dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one does not respond: its queue of connections is full."""
    with socket.socket() as deaf, socket.socket() as listener, contextlib.ExitStack() as waiting:
        for sock in (deaf, listener):
            sock.bind(("127.0.0.1", 0))
            sock.listen(0)
        for _ in range(4):
            extra = waiting.enter_context(socket.socket())
            extra.setblocking(False)
            extra.connect_ex(deaf.getsockname())
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", sock.getsockname()) for sock in (deaf, listener)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with await dial("brokers.example", 7481, 2.0) as connected:
            assert connected.getpeername() == listener.getsockname()
