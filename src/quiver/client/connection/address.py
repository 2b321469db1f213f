"""Where brokers listen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import whole_number

DEFAULT_PORT = 7481


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Addresses of one broker or cluster; the first that responds is used."""

    addresses: tuple[Address, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.addresses))


def parse_bootstrap(value: str | Sequence[str]) -> Bootstrap:
    """One address, several with commas between them, or a list of them."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not texts:
        raise InvalidRequest(problem=f"{value!r} must name an address, such as localhost:{DEFAULT_PORT}")
    return Bootstrap(tuple(dict.fromkeys(parse_address(text) for text in texts)))


def parse_address(text: object) -> Address:
    """`host`, `host:port`, `[::1]:port`; without a port the default one."""
    if isinstance(text, str):
        host, port = _split(text.strip())
        number = whole_number(port)
        if host and number is not None and 0 < number < 65536:
            return Address(host, number)
    raise InvalidRequest(problem=f"address {text!r} is not of the form host:port, such as localhost:{DEFAULT_PORT}")


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        return host if bracket else "", rest[1:] if rest.startswith(":") else rest or str(DEFAULT_PORT)
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, str(DEFAULT_PORT)
    return ("", "") if ":" in host else (host, port)


def http_url(native_address: str, http_port: int) -> str | None:
    """The HTTP port of the broker that was reached at a native address; None if it has none."""
    return f"http://{parse_address(native_address)._replace(port=http_port)}" if http_port else None
