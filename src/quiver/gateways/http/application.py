"""The ASGI application: routing, errors as objects of the catalogue, and a log line per request."""

import logging
from time import perf_counter
from typing import Any

from starlette.routing import Route, Router

from quiver.gateways.http.browser_guard import BrowserGuard
from quiver.gateways.http.operation import REQUEST_KEY, Resource, Routes
from quiver.gateways.http.request import ClientGone, Receive, Request, Scope, Send
from quiver.gateways.http.response import error_response, send_response
from quiver.model.errors import QuiverError, RouteNotFound
from quiver.model.limits import Limits
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget

_log = logging.getLogger("quiver.http")

_PREFIX = "/v1"
_SHOWN_PATH = 200
_SLOW_SECONDS = 5.0
"""A request that takes longer, and was not asked to wait, is logged as a warning."""


class Application:
    """Serves the routes, each also under /v1. Routes are tried in order: the busiest come first."""

    def __init__(
        self,
        routes: Routes,
        limits: Limits,
        budget: MemoryBudget | None = None,
        *,
        guard: BrowserGuard | None = None,
        log_requests: bool = False,
    ) -> None:
        self._max_body_bytes = limits.request_bytes
        self._budget = budget or MemoryBudget(DEFAULT_BYTES)
        self._guard = guard or BrowserGuard()
        self._line_level = logging.INFO if log_requests else logging.DEBUG
        self._router = Router(
            [Route(path, Resource(path, operations)) for path, operations in routes.items()],
            redirect_slashes=False,
            default=_no_route,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        _use_raw_path(scope)
        request = Request(scope, receive, self._max_body_bytes, self._budget)
        scope[REQUEST_KEY] = request
        status = 0

        async def send_noting_status(event: Any) -> None:
            nonlocal status
            if not status:
                status = event["status"]
            await send(event)

        try:
            self._guard.check(request)
            await self._router(scope, receive, send_noting_status)
        except ClientGone:
            pass
        except Exception as error:
            if status:
                _log.exception("the response to %s %s broke off", request.method, request.path[:_SHOWN_PATH])
            else:
                await send_response(request, error_response(_known(error, request)), send_noting_status)
        finally:
            request.release()
            self._write_line(request, status, perf_counter() - started)

    def _write_line(self, request: Request, status: int, seconds: float) -> None:
        """One line per request, at the level that was asked for; failed and slow requests are always logged.

        The record is made here because `info` would search the stack for its caller each time.
        """
        is_slow = seconds >= _SLOW_SECONDS and not request.waits
        level = logging.WARNING if status >= 500 or is_slow else self._line_level
        if _log.isEnabledFor(level):
            values = (request.method, request.path[:_SHOWN_PATH], status, seconds * 1000)
            _log.handle(logging.LogRecord(_log.name, level, __file__, 0, "%s %s %d %.2f ms", values, None))


def _use_raw_path(scope: Scope) -> None:
    """Routes by the path as it was sent, so that a quoted slash stays inside its part; without the version."""
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    if raw is not None and b"%" in raw:
        path = raw.decode("latin-1")
    if path.startswith(_PREFIX) and path[len(_PREFIX) : len(_PREFIX) + 1] in ("/", ""):
        path = path[len(_PREFIX) :] or "/"
    scope["path"] = path


def _known(error: Exception, request: Request) -> QuiverError:
    if isinstance(error, QuiverError):
        return error
    _log.error("%s %s failed", request.method, request.path[:_SHOWN_PATH], exc_info=error)
    return QuiverError()


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    request: Request = scope[REQUEST_KEY]
    raise RouteNotFound(method=request.method, path=request.path[:_SHOWN_PATH])
