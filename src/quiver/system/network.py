"""Connections over TCP. Everything that listens or dials uses a Network.

Both sides of a connection are stream sockets. Those of another Network need not be sockets of the operating system:
the loop that runs them must know them, and callers use only their methods, and `fileno` only for calls of the loop.
"""

import asyncio
import errno
import socket
from typing import Any, Protocol

from quiver.model.errors import InvalidSetting

_BACKLOG = 1024
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Network(Protocol):
    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        """Non-blocking listeners on every address of a host, and their port; port 0 picks a free one.

        Raises InvalidSetting if the address is not available.
        """
        ...

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connected socket. Raises OSError or TimeoutError if that fails."""
        ...


class TcpNetwork:
    async def listen(self, host: str, port: int) -> tuple[list[socket.socket], int]:
        listeners: list[socket.socket] = []
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            absent: OSError | None = None
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
        except (OSError, OverflowError, UnicodeError) as error:
            for listener in listeners:
                listener.close()
            problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InvalidSetting(
                setting="native_port", problem=f"cannot listen on {host}:{port}: {problem}"
            ) from error
        return listeners, port

    async def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            found: list[Any] = list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            for position, (family, kind, protocol, _, address) in enumerate(found):
                sock = socket.socket(family, kind, protocol)
                sock.setblocking(False)
                try:
                    await loop.sock_connect(sock, address)
                except BaseException as error:
                    sock.close()
                    if not isinstance(error, OSError) or position == len(found) - 1:
                        raise
                else:
                    return sock
        raise OSError(f"{host} has no address")


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
