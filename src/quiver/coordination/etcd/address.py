"""The address of etcd: `etcd://user:password@host:2379,host:2379/name`, `etcds://` for TLS."""

import re
import ssl
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = 2379
_EXAMPLE = "etcd://host:2379,host:2379/name"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_FILES = ("ca", "cert", "key")


class Endpoint(NamedTuple):
    host: str
    port: int
    address: str = ""
    """The one that is used where the host is a name with several."""

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.authority} ({self.address})" if self.address else self.authority


class Credentials(NamedTuple):
    user: str
    password: str


class EtcdAddress(NamedTuple):
    endpoints: tuple[Endpoint, ...]
    name: str
    """Of what shares its keys; all of them are below `quiver/NAME/`."""
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None

    @property
    def prefix(self) -> str:
        return f"quiver/{self.name}/"


def parse_etcd_address(value: str) -> EtcdAddress:
    """Raises ValueError, with a sentence that does not repeat a password. Reads the files of certificates."""
    parts = urlsplit(value.strip())
    if parts.scheme not in ("etcd", "etcds"):
        raise ValueError(f"must be an address such as {_EXAMPLE}")
    user, _, hosts = parts.netloc.rpartition("@")
    name = parts.path.strip("/")
    if not _NAME.fullmatch(name):
        raise ValueError(f"the address has no name of 1 to 63 letters, digits, _ and - after the hosts: {_EXAMPLE}")
    files = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(files.keys() - set(_FILES)):
        raise ValueError(f"the option {unknown[0]!r} is not known, only {', '.join(_FILES)}")
    if files and parts.scheme == "etcd":
        raise ValueError(f"{', '.join(sorted(files))} are for TLS: write etcds:// instead of etcd://")
    endpoints = tuple(_endpoint(host) for host in hosts.split(","))
    tls = _tls(files) if parts.scheme == "etcds" else None
    return EtcdAddress(endpoints, name, _credentials(user), tls)


def _endpoint(text: str) -> Endpoint:
    parts = urlsplit(f"//{text.strip()}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the port of the address is not a number from 0 to 65535") from None
    if not host:
        raise ValueError(f"the address has an empty host: {_EXAMPLE}")
    return Endpoint(host, port or DEFAULT_PORT)


def _credentials(user: str) -> Credentials | None:
    name, _, password = user.partition(":")
    return Credentials(unquote(name), unquote(password)) if name else None


def _tls(files: dict[str, str]) -> ssl.SSLContext:
    if "key" in files and "cert" not in files:
        raise ValueError("the address has a key without a cert")
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except OSError as error:
        raise ValueError(f"the certificates of the address cannot be used: {error.strerror or error}") from error
    return context
