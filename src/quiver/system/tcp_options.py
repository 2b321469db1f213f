"""How connections over TCP are set up, by whoever dials and by whoever accepts."""

import socket

_IDLE_SECONDS, _INTERVAL_SECONDS, _PROBES = 20, 5, 4


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
