"""How much a client of the native port may hold, and for how long. All bounds are per connection unless said."""

import msgspec

from quiver.model.limits import CONNECTIONS, KIB, LONGEST_WAIT_MS, MIB


class NativeSettings(msgspec.Struct, frozen=True, kw_only=True):
    handshake_seconds: float = 10.0
    stall_seconds: float = 30.0
    """The span over which a client's rate is measured."""
    least_bytes_per_second: int = KIB
    """A client that takes responses, or sends a request that it has begun, more slowly than this is disconnected."""
    linger_seconds: float = 1.0
    """After a last response: the time a client gets to read it and hang up."""
    requests_in_flight: int = 1024
    request_bytes_in_flight: int = 64 * MIB
    """Beyond either, reading pauses until some requests are carried out."""
    response_bytes_queued: int = 64 * MIB
    """Beyond it, reading pauses until the client has taken some."""
    message_bytes: int = MIB
    """The MessagePack part of a request; frames are not in it."""
    connections: int = CONNECTIONS
    """In all."""
    max_wait_ms: int = LONGEST_WAIT_MS
    """The longest that one fetch may wait for data."""
