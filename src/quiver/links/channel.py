"""Where the calls of a link go while it is connected: over a socket, or to a worker of the same process."""

import socket
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from quiver.links.request import PeerRequest, Reply
from quiver.model.errors import QuiverError
from quiver.protocol.packet import Buffer


class Results(Protocol):
    """What a channel reports to the link that uses it."""

    def heard(self) -> None:
        """The other side runs."""

    def replied(self, correlation: int, reply: "Reply[Any]") -> None: ...

    def failed(self, correlation: int, error: QuiverError) -> None: ...

    def broken(self, channel: "Channel", reason: str) -> None:
        """No more results will come, unless the link has closed the channel itself."""


class Channel(Protocol):
    @property
    def queued_bytes(self) -> int:
        """That have not left."""
        ...

    def send(self, correlation: int, request: PeerRequest[Any], payload: Sequence[Buffer], revision: int) -> int:
        """Queues a call before it returns; returns how many bytes it keeps until its result comes."""
        ...

    def cancel(self, correlation: int) -> None:
        """The caller no longer waits; a last word comes all the same."""

    def end(self) -> None:
        """All workers are being stopped: whoever is silent now is not waited for as long."""

    def close(self) -> None:
        """Drops what was not sent, and reports nothing any more."""


class RemoteEnd(NamedTuple):
    """A connected socket to another node."""

    sock: socket.socket
    version: int
    """Of the protocol between nodes, as both have agreed."""
    node: str = ""
    """Its id."""


class LocalEnd:
    """A worker of the same process, to be called without a socket."""

    def __init__(self, connect: Callable[[str, Results], Channel], node: str = "") -> None:
        self.node = node
        """The id of this node, where workers move between nodes."""
        self.connect = connect
        """Gets the name of the caller."""
