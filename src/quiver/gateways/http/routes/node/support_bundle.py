"""The support bundle of a running broker: what somebody needs to understand it, in one file, without content of
messages. `quiver doctor --bundle` makes one with what it examined itself beside it."""

import asyncio
import io
import tarfile
from collections.abc import Sequence
from typing import Any

import msgspec

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.errors import QuiverError
from quiver.system.clock import Clock
from quiver.telemetry.redaction import scrubbed, without_error_texts, without_secrets

ROUTES = {
    "node.json": "/node",
    "readyz.json": "/readyz",
    "version.json": "/version",
    "stats.json": "/stats",
    "overview.json": "/overview",
    "reliability.json": "/reliability/stats",
    "priority.json": "/priority/stats",
    "delays.json": "/delay/stats",
    "rebalances.json": "/rebalance/stats",
    "transactions.json": "/transactions/stats",
    "topics.json": "/topics",
    "groups.json": "/groups",
    "log.json": "/logs",
    "metrics.txt": "/metrics",
}
_README = """\
Support bundle of a Quiver broker, made by GET /support-bundle.

It has settings (secrets as stars), versions, health, counters, names of topics and groups, and log lines (of errors
their type, without their text). It has no values, keys and headers of messages, and no texts of errors that consumers
reported. Names of topics, groups, clients and hosts are in it.

"""
GZIP = b"application/gzip"


class SupportBundle:
    """Asks the routes that everybody can ask."""

    def __init__(self, routes: Routes, clock: Clock) -> None:
        self._routes = routes
        self._clock = clock

    async def bundle(self, request: Request) -> Response:
        found: list[tuple[str, Any]] = []
        missing: list[str] = []
        for name, route in ROUTES.items():
            try:
                response = await self._routes[route]["GET"].handler(request)
            except QuiverError as error:
                missing.append(f"left out: {route}: {error.message}\n")
                continue
            assert isinstance(response, Response)
            found.append((name, response.body))
        packed = await asyncio.to_thread(_packed, found, _README + "".join(missing), self._clock.now_ms() // 1000)
        name = f'attachment; filename="quiver-support-{self._clock.now_ms() // 1000}.tar.gz"'
        headers = [(b"content-disposition", name.encode()), (b"cache-control", b"no-store")]
        return Response(packed, content_type=GZIP, headers=headers)


def _packed(found: Sequence[tuple[str, Any]], readme: str, seconds: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, body in [("README.txt", readme.encode()), *found]:
            data = body if isinstance(body, bytes) else _document(name, body)
            info = tarfile.TarInfo(f"quiver-support/{name}")
            info.size, info.mtime, info.mode = len(data), seconds, 0o600
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def _document(name: str, body: Any) -> bytes:
    document = msgspec.to_builtins(body)
    shown = [_log_line(line) for line in document["lines"]] if name == "log.json" else scrubbed(document)
    return msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n"


def _log_line(line: dict[str, str]) -> dict[str, str]:
    shown = {name: line[name] for name in ("time", "level", "logger")}
    shown["message"] = without_secrets(line["message"])
    if line.get("traceback"):
        shown["traceback"] = without_error_texts(line["traceback"])
    return shown


def support_bundle_routes(routes: Routes, clock: Clock) -> Routes:
    return {
        "/support-bundle": {
            "GET": Operation(
                handler=SupportBundle(routes, clock).bundle,
                summary="Health, counters, settings and log lines in one file, without content of messages",
                tag="Node",
                response=None,
            )
        }
    }
