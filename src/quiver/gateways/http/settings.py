"""How the HTTP port treats its clients, and what readiness watches."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from quiver.model.limits import KIB, MIB


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "http"
    """What metrics call the port."""
    stall_seconds: float = 30.0
    """The span over which a client's rate is measured."""
    least_bytes_per_second: float = KIB
    """A client that takes its response, or sends a request it has begun, more slowly than this is disconnected."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients may use for this broker, besides its addresses and localhost."""
    allowed_origins: tuple[str, ...] = ()
    """Of pages that may use it, `*` for all."""
    log_requests: bool = False
    """A log line per request at level info; without it they are at level debug."""
    outage: Callable[[], str | None] | None = None
    """Why the store cannot be used now, if it can be away."""
    data_dir: Path | None = None
    """Where readiness watches the free space; None: nowhere."""
    min_free_bytes: int = 256 * MIB
