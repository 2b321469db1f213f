"""Where a running broker is reached, and how it says so."""

import ipaddress
import logging
from typing import Any, NamedTuple

from quiver.app.config import Config

_log = logging.getLogger(__name__)

STATE_FILE = "broker.json"
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


class Addresses(NamedTuple):
    """Where a running broker listens."""

    host: str
    http_port: int
    native_port: int
    queen_port: int | None = None

    @property
    def queen(self) -> str | None:
        return None if self.queen_port is None else f"http://{self._shown_host}:{self.queen_port}"

    @property
    def http(self) -> str:
        return f"http://{self._shown_host}:{self.http_port}"

    @property
    def native(self) -> str:
        return f"{self._shown_host}:{self.native_port}"

    @property
    def _shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def advertised_host(config: Config) -> str:
    return config.advertise or ("localhost" if config.host in _WILDCARDS else config.host)


def state_of(addresses: Addresses, pid: int, started_ms: int) -> dict[str, Any]:
    """What DATA_DIR/broker.json says."""
    queen = {} if addresses.queen_port is None else {"queen_port": addresses.queen_port}
    return {
        "pid": pid,
        "host": addresses.host,
        "http_port": addresses.http_port,
        "native_port": addresses.native_port,
        "http": addresses.http,
        "native": addresses.native,
        "started_at_ms": started_ms,
        **queen,
    }


def warn_if_exposed(config: Config, addresses: Addresses) -> None:
    if not _is_loopback(config.host):
        _log.warning(
            "listening on %s without authentication: anybody at ports %d and %d can read, change and delete "
            "everything; keep them behind a firewall, or listen on 127.0.0.1",
            config.host or "every interface",
            addresses.http_port,
            addresses.native_port,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
