"""The address of a database: `postgresql://user:password@host:port/database?schema=quiver`."""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

SCHEMES = ("postgresql", "postgres")
DEFAULT_SCHEMA = "quiver"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MASK = "********"


class PostgresAddress(NamedTuple):
    dsn: str
    """As the driver takes it: without the schema."""
    schema: str
    shown: str
    """Without the password."""


def parse_address(value: str) -> PostgresAddress:
    """Raises ValueError, with a sentence that does not repeat a password."""
    parts = urlsplit(value.strip())
    if parts.scheme not in SCHEMES:
        raise ValueError("must be an address such as postgresql://user@host/database?schema=quiver")
    if not parts.path.strip("/"):
        raise ValueError("the address names no database; write postgresql://user@host/database")
    _check_ports(parts.netloc)
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((text for name, text in options if name == "schema"), DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ValueError(f"{schema!r} is not a schema name: use 1 to 63 of a-z 0-9 _, not beginning with pg_")
    others = [(name, text) for name, text in options if name != "schema"]
    dsn = urlunsplit(parts._replace(query=urlencode(others)))
    return PostgresAddress(dsn, schema, masked_address(value))


def _check_ports(netloc: str) -> None:
    """An address may name several servers, with commas between them."""
    for host in netloc.rpartition("@")[2].split(","):
        try:
            _ = urlsplit(f"//{host}").port
        except ValueError:
            raise ValueError("the port of the address is not a number from 0 to 65535") from None


def masked_address(value: str) -> str:
    """With stars for the password, in front of the host and among the options."""
    parts = urlsplit(value.strip())
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    options = [(key, _MASK if key.endswith("password") else text) for key, text in parse_qsl(parts.query)]
    netloc = f"{name}{colon}{_MASK if colon else ''}{at}{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(options, safe="*/")))
