"""Keeps web pages of others from using a visitor's browser to reach a broker that only the visitor can reach.

A page can make its own name resolve to the broker's address (DNS rebinding), and can post forms anywhere. A browser
says in Host which name it resolved, and in Origin whose page asks; no page can change either.
"""

import ipaddress
from collections.abc import Iterable

from quiver.gateways.http.request import Request
from quiver.model.errors import ForeignOrigin, HostNotAllowed

_READS = ("GET", "HEAD")
_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")
_DEFAULT_PORTS = (":80", ":443")


_SHARED = b"access-control-allow-origin: %b\r\naccess-control-expose-headers: retry-after\r\nvary: origin\r\n"
_PREFLIGHT = b"access-control-max-age: 3600\r\naccess-control-allow-methods: GET, POST, PUT, DELETE\r\n"


class BrowserGuard:
    """`names` are host names of this broker besides its addresses and localhost; pages of `origins` may use it, `*`
    stands for all."""

    def __init__(self, names: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._allowed: set[bytes] = set()
        """Host headers that were found good, as they came: most clients send the same one always."""
        self._origins = {origin.rstrip("/").lower().encode() for origin in origins}
        self._names = {"localhost", *(name.rstrip(".").lower() for name in names)}

    def check(self, request: Request) -> None:
        """HostNotAllowed, or ForeignOrigin for a request that changes something."""
        host = request.headers.get(b"host")
        if host is not None and host not in self._allowed:
            self._check_host(host)
        if self._origins and self._is_shared_with(request):
            return
        if request.method not in _READS and b"origin" in request.headers:
            _check_origin(request, host or b"")
        if request.headers.get(b"sec-fetch-site") == b"cross-site" and request.method not in _READS:
            raise ForeignOrigin(origin="another site")

    def _is_shared_with(self, request: Request) -> bool:
        """Whether the page that asks may; then the response says so to the browser."""
        origin = request.headers.get(b"origin")
        if origin is None or not (b"*" in self._origins or origin.lower() in self._origins):
            return False
        request.exchange.added_lines = _SHARED % origin
        return True

    @staticmethod
    def is_preflight(request: Request) -> bool:
        """Whether a browser only asks what a page may do that was found good; then the response says so."""
        if request.method != "OPTIONS" or not request.exchange.added_lines:
            return False
        wanted = request.headers.get(b"access-control-request-headers", b"content-type")
        request.exchange.added_lines += _PREFLIGHT + b"access-control-allow-headers: %b\r\n" % wanted
        return True

    def _check_host(self, host: bytes) -> None:
        name = _name(host.decode("latin-1"))
        if name not in self._names and not _is_address(name):
            raise HostNotAllowed(host=name[:200])
        if len(self._allowed) < 100:
            self._allowed.add(host)


def _check_origin(request: Request, host: bytes) -> None:
    origin = request.headers[b"origin"].decode("latin-1")
    _, _, asking = origin.partition("://")
    if not asking or _without_port(asking) != _without_port(host.decode("latin-1")):
        raise ForeignOrigin(origin=origin[:200])
    kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind in _FORMS:
        raise ForeignOrigin(f"a page must not send {kind.decode()}: send application/json", origin=origin[:200])


def _without_port(host: str) -> str:
    """Host and port in one spelling; the ports that a browser leaves out are left out."""
    host = host.lower()
    for port in _DEFAULT_PORTS:
        host = host.removesuffix(port)
    return host


def _name(host: str) -> str:
    """The host without its port, brackets and final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].rstrip(".").lower() if ":" in host else host.rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
