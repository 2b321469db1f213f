"""Clients of brokers: one per broker and process, kept for the next task of the same worker.

A process id is part of the key because Spark forks its Python workers, and a connection must not be shared by two.
"""

import os
from functools import lru_cache

import quiver
from quiver.model.errors import ConnectionLost, InvalidRequest

_CLIENT_ID = "quiver-spark"


def broker_client(bootstrap: str, timeout_seconds: float) -> quiver.Client:
    """A client that connects when it is first used, and again when the connection breaks."""
    return _client(bootstrap, timeout_seconds, os.getpid())


@lru_cache(maxsize=16)
def _client(bootstrap: str, timeout_seconds: float, pid: int) -> quiver.Client:
    return quiver.connect(bootstrap, timeout=timeout_seconds, client_id=_CLIENT_ID, lazy=True)


def unreachable(error: ConnectionLost) -> ConnectionLost:
    """The error with the option that says where the broker is."""
    return ConnectionLost(f"{error.message}; is the broker running there (option bootstrap)?")


def address_of(broker: quiver.Client | str) -> str:
    """An address as it is, or that of the client that `quiver.open` returned, whose broker then listens on a port of
    this machine."""
    if isinstance(broker, str):
        return broker
    listen = getattr(broker, "listen", None)
    if listen is None:
        raise InvalidRequest(problem="give the address of the broker, or the client that quiver.open returned")
    address: str = listen()
    return address
