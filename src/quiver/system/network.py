"""Connections over TCP. Everything that listens or dials uses a Network.

Both sides of a connection are stream sockets. Those of another Network need not be sockets of the operating system:
the loop that runs them must know them, and callers use only their methods, and `fileno` only for calls of the loop.
"""

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any, Protocol

from quiver.model.errors import InvalidSetting

_BACKLOG = 1024
_TURNS_UNTIL_READ = 2
"""Sockets are looked at between two turns."""
_IDLE_SECONDS, _INTERVAL_SECONDS, _PROBES = 20, 5, 4
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Network(Protocol):
    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        """Non-blocking listeners on every address of a host, and their port; port 0 picks a free one.

        Raises InvalidSetting if the address is not available.
        """
        ...

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connected socket, to the first address of the name that responds; each gets its share of the time. Raises
        OSError or TimeoutError if that fails."""
        ...


class TcpNetwork:
    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        try:
            return _listen_on(
                await asyncio.get_running_loop().getaddrinfo(
                    host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                ),
                port,
            )
        except (OSError, OverflowError, UnicodeError) as error:
            raise _cannot_listen(host, port, error) from error

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        async with asyncio.timeout(timeout):
            found: list[Any] = list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            for position, (family, kind, protocol, _, address) in enumerate(found):
                sock = socket.socket(family, kind, protocol)
                sock.setblocking(False)
                try:
                    async with asyncio.timeout((deadline - loop.time()) / (len(found) - position)):
                        await loop.sock_connect(sock, address)
                except BaseException as error:
                    sock.close()
                    if not isinstance(error, OSError) or position == len(found) - 1:
                        raise
                else:
                    return sock
        raise OSError(f"{host} has no address")


async def addresses_of(host: str, port: int) -> list[str]:
    """What the resolver of the system says of a name. OSError where it has none."""
    found: list[Any] = list(await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class OpenedNetwork:
    """Listens on what was opened before, by `open_listeners`; dials like any other."""

    def __init__(self, listeners: list[socket.socket]) -> None:
        self._listeners = listeners

    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        return list(self._listeners), self._listeners[0].getsockname()[1]

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        return await TcpNetwork().dial(host, port, timeout)


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Like `Network.listen`, for a process without an event loop. Blocks."""
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return _listen_on(addresses, port)[0]
    except (OSError, OverflowError, UnicodeError) as error:
        raise _cannot_listen(host, port, error) from error


def _cannot_listen(host: str, port: int, error: Exception) -> InvalidSetting:
    problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InvalidSetting(setting="native_port", problem=f"cannot listen on {host}:{port}: {problem}")


def _listen_on(addresses: Sequence[Any], port: int) -> tuple[list[socket.socket], int]:
    listeners: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(addresses):
            try:
                listener = _listener(family, (address[0], port, *address[2:]))
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                absent = error
                continue
            listeners.append(listener)
            port = listener.getsockname()[1]
        if not listeners and absent is not None:
            raise absent
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners, port


def _listener(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def tune(sock: socket.socket) -> None:
    """What is sent leaves at once, and a machine that is gone without a word is noticed, also by those who only wait.

    Sockets of other kinds stay as they are.
    """
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def arrivals_read() -> None:
    """Returns when the loop has read what had arrived at its sockets: for timers that end what seems idle.

    After a pause of the process (or of the machine) timers that are due run before sockets are read.
    """
    for _ in range(_TURNS_UNTIL_READ):
        await asyncio.sleep(0)
