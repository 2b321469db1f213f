"""Which addresses are of this machine."""

import socket
from typing import Any

from quiver.client.connection.address import parse_address


def is_own_address(address: str) -> bool:
    """Whether a socket can be bound to it: to one of another machine it cannot."""
    try:
        found = socket.getaddrinfo(parse_address(address).host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(_is_bindable(family, place) for family, _, _, _, place in found)


def _is_bindable(family: int, place: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        try:
            sock.bind(place)
        except OSError:
            return False
    return True
