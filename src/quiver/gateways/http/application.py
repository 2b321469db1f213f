"""What happens with a request: routing, errors as objects of the catalogue, and a log line."""

import contextlib
import logging
from time import perf_counter

from quiver.gateways.http.browser_guard import BrowserGuard
from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import error_response, send_response
from quiver.gateways.http.router import Router
from quiver.gateways.http.wire.exchange import ClientGone, Exchange
from quiver.model.errors import QuiverError
from quiver.model.limits import Limits
from quiver.system.memory_budget import DEFAULT_BYTES, MemoryBudget

_log = logging.getLogger("quiver.http")

_SHOWN_PATH = 200
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
    ) -> None:
        self._max_body_bytes = limits.request_bytes
        self._budget = budget or MemoryBudget(DEFAULT_BYTES)
        self._guard = guard or BrowserGuard()
        self._line_level = logging.INFO if log_requests else logging.DEBUG
        self._router = Router(routes)

    async def handle(self, exchange: Exchange) -> None:
        started = perf_counter()
        request = Request(exchange, self._max_body_bytes, self._budget)
        try:
            request.hold_head()
            self._guard.check(request)
            resource, request.params = self._router.find(request.path, request.method)
            request.route = resource.path
            response = await resource.operation(request.method, request.path).handler(request)
            await send_response(request, response)
        except ClientGone:
            pass
        except Exception as error:
            if exchange.status:
                _log.exception("the response to %s %s broke off", request.method, request.path[:_SHOWN_PATH])
                exchange.abort()
            else:
                await self._send_error(request, error)
        finally:
            request.release()
            self._write_line(request, exchange.status, perf_counter() - started)

    async def _send_error(self, request: Request, error: Exception) -> None:
        if not isinstance(error, QuiverError):
            _log.error("%s %s failed", request.method, request.path[:_SHOWN_PATH], exc_info=error)
            error = QuiverError()
        with contextlib.suppress(ClientGone):
            await send_response(request, error_response(error))

    def _write_line(self, request: Request, status: int, seconds: float) -> None:
        """One line per request, at the level that was asked for; failed and slow requests are always logged.

        The record is made here because `info` would search the stack for its caller each time.
        """
        is_slow = seconds >= _SLOW_SECONDS and not request.waits
        level = logging.WARNING if status >= 500 or is_slow else self._line_level
        if _log.isEnabledFor(level):
            values = (request.method, request.path[:_SHOWN_PATH], status, seconds * 1000)
            _log.handle(logging.LogRecord(_log.name, level, __file__, 0, "%s %s %d %.2f ms", values, None))
