"""Sockets that listen on every address of a host."""

import asyncio
import errno
import socket

from quiver.model.errors import InvalidSetting

_BACKLOG = 1024
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


async def listen(host: str, port: int) -> tuple[list[socket.socket], int]:
    """Non-blocking listeners and their port, the same for all addresses; port 0 picks a free one."""
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
        raise InvalidSetting(setting="native_port", problem=f"cannot listen on {host}:{port}: {problem}") from error
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
