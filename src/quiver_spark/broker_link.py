"""Connections to brokers: one for each broker and process, kept for the next task of the same worker."""

import os
from functools import lru_cache

from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client.connection.address import parse_bootstrap

_CLIENT = "quiver-spark"


def broker_link(bootstrap: str, timeout_seconds: float) -> ReconnectingConnection:
    """A link that connects when it is first used, and again when the connection breaks."""
    return _link(bootstrap, timeout_seconds, os.getpid())


@lru_cache(maxsize=16)
def _link(bootstrap: str, timeout_seconds: float, pid: int) -> ReconnectingConnection:
    return ReconnectingConnection(parse_bootstrap(bootstrap), timeout=timeout_seconds, client_id=_CLIENT)
