"""Ports for servers that tests start."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

_returned: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, and that no other process of tests on this machine gets while this one runs.

    It lies below the range that outgoing connections take theirs from, so that a client that tries to reach a
    stopped server can neither take the port nor meet itself there. No port is returned twice.
    """
    locks = _locks()
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randint(20_000, 32_000)
            probe.bind(("127.0.0.1", port))
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            if port not in _returned:  # a process does not exclude itself
                _returned.add(port)
                return port


@cache
def _locks() -> int:
    """A file of which each byte is the lock of a port. Locks end with the process, or when it closes the file."""
    path = Path(tempfile.gettempdir()) / f"quiver-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
