"""What happens with a request: routing, errors as objects of the catalogue, and a log line."""

import asyncio
import contextlib
import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import Any

from quiver.gateways.http.browser_guard import BrowserGuard
from quiver.gateways.http.open_requests import OpenRequests
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, error_response, respond_at_once, send_response
from quiver.gateways.http.router import Router
from quiver.gateways.http.wire.exchange import ClientGone, Exchange
from quiver.model.errors import QuiverError
from quiver.model.limits import Limits
from quiver.system.clock import SystemClock
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget
from quiver.telemetry.gateway_counts import GatewayCounts
from quiver.telemetry.histogram import LATENCY_SECONDS, Histogram

_log = logging.getLogger("quiver.http")

PUBLISH = "POST /topics/{topic}/messages"
_PUBLISHING = (PUBLISH, "POST /api/v1/push")
"""The requests that publish: of those that are served, the first is counted."""
_TRACEPARENT = b"traceparent"
_SAMPLED_TRACE = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f][13579bdf]")
_UNKNOWN = "unknown"
"""Requests to paths that do not exist."""
_CLIENT_GONE = "client_gone"
_SLOW_SECONDS = 5.0
"""A request that takes longer, and was not asked to wait, is logged as a warning."""


class Application:
    """Serves the routes, each also under /v1."""

    def __init__(
        self,
        routes: Routes,
        limits: Limits,
        budget: MemoryBudget | None = None,
        *,
        guard: BrowserGuard | None = None,
        log_requests: bool = False,
        now_ms: Callable[[], int] = SystemClock().now_ms,  # noqa: B008 - has no state
    ) -> None:
        self._now_ms = now_ms
        self._max_body_bytes = limits.request_bytes
        self._budget = budget or MemoryBudget(DEFAULT_BYTES)
        self._guard = guard or BrowserGuard()
        self._line_level = logging.INFO if log_requests else logging.DEBUG
        self._router = Router(routes)
        self._open: OpenRequests | None = None
        names = {(path, method): f"{method} {path}" for path, methods in routes.items() for method in methods}
        publish = next((name for name in _PUBLISHING if name in names.values()), _UNKNOWN)
        self.served = GatewayCounts("http", operations=[*names.values(), _UNKNOWN], publish=publish)
        self._unknown = self.served.operations[_UNKNOWN]
        self._counts = {key: self.served.operations[name] for key, name in names.items()}
        self._counts |= {(path, "HEAD"): counts for (path, method), counts in self._counts.items() if method == "GET"}

    def begin(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        """Handles a request, or returns what is to be awaited for it."""
        request = Request(exchange, self._max_body_bytes, self._budget)
        request.started = perf_counter()
        try:
            request.hold_head()
            self._guard.check(request)
            if self._guard.is_preflight(request):
                request.exchange.respond(204, (), b"")
                self._end(request)
                return None
            resource, request.params = self._router.find(request.path, request.method)
            request.route = resource.path
            operation = resource.operation(request.method, request.path)
            request.counts = self._counts.get((resource.path, request.method), self._unknown)
            if self._open is not None:
                self._open.add(request)
            begun = None if operation.begin is None else operation.begin(request)
        except Exception as error:
            return self._refuse(request, error)
        if begun is None:
            return self._handle(request, operation)
        if isinstance(begun, Response):
            self._respond(request, begun)
        else:
            begun.future.add_done_callback(partial(self._finish, request, begun.response))
        return None

    def watch(self, outage: Callable[[], str | None]) -> None:
        """Requests that wait are answered when it has said for a while why the store is away."""
        self._open = OpenRequests(outage)

    def answer_overdue(self) -> None:
        """To be called now and then."""
        for request, error in [] if self._open is None else self._open.overdue(perf_counter()):
            response = self._error_response(request, error)
            media = request.response_media
            headers = [(b"content-type", media.content_type), *response.headers]
            request.exchange.respond_early(response.status, headers, media.encode(response.body))

    async def _handle(self, request: Request, operation: Operation) -> None:
        try:
            await send_response(request, await operation.handler(request))
        except ClientGone:
            pass
        except Exception as error:
            await self._send_error(request, error)
        finally:
            self._end(request)

    async def _refuse(self, request: Request, error: Exception) -> None:
        try:
            await self._send_error(request, error)
        finally:
            self._end(request)

    def _finish(self, request: Request, response: Callable[[], Response], future: "asyncio.Future[Any]") -> None:
        try:
            made = response()
        except (Exception, asyncio.CancelledError) as error:
            made = self._error_response(request, error)
        self._respond(request, made)

    def _respond(self, request: Request, response: Response) -> None:
        try:
            respond_at_once(request, response)
        finally:
            self._end(request)

    async def _send_error(self, request: Request, error: Exception) -> None:
        if request.exchange.status:
            _log.error("the response to %s %s broke off", request.method, request.shown_path, exc_info=error)
            request.exchange.abort()
            return
        with contextlib.suppress(ClientGone):
            await send_response(request, self._error_response(request, error))

    def _error_response(self, request: Request, error: BaseException) -> Response:
        known = _known(error, request)
        request.failure = known.code
        return error_response(known)

    def _end(self, request: Request) -> None:
        if self._open is not None:
            self._open.discard(request)
        request.release()
        took = perf_counter() - request.started
        counts = request.counts or self._unknown
        seconds = counts.seconds
        seconds.counts[bisect_left(LATENCY_SECONDS, took)] += 1
        seconds.sum += took
        if _TRACEPARENT in request.headers:
            self._trace(request, seconds, took)
        if request.failure or not request.exchange.status:
            counts.failed(request.failure or _CLIENT_GONE)
        self._write_line(request, request.exchange.status, took)

    def _trace(self, request: Request, seconds: Histogram, took: float) -> None:
        """A request that is part of a sampled trace becomes the example of its bucket."""
        found = _SAMPLED_TRACE.fullmatch(request.headers[_TRACEPARENT])
        if found is not None:
            seconds.trace(took, found[1].decode(), self._now_ms())

    def _write_line(self, request: Request, status: int, seconds: float) -> None:
        """One line per request, at the level that was asked for; failed and slow requests are always logged.

        The record is made here because `info` would search the stack for its caller each time.
        """
        is_slow = seconds >= _SLOW_SECONDS and not request.waits
        level = logging.WARNING if status >= 500 or is_slow else self._line_level
        if _log.isEnabledFor(level):
            values = (request.method, request.shown_path, status, seconds * 1000)
            _log.handle(logging.LogRecord(_log.name, level, __file__, 0, "%s %s %d %.2f ms", values, None))


def _known(error: BaseException, request: Request) -> QuiverError:
    if isinstance(error, QuiverError):
        return error
    _log.error("%s %s failed", request.method, request.shown_path, exc_info=error)
    return QuiverError()
