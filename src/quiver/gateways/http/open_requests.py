"""Requests that are being handled, of a broker whose store can be away."""

from collections.abc import Callable

from quiver.gateways.http.request import Request
from quiver.model.errors import StorageUnavailable

ANSWERED_AFTER_SECONDS = 10.0


class OpenRequests:
    """What a request has begun waits until the store is back, which may take long; its client is told before."""

    def __init__(self, outage: Callable[[], str | None]) -> None:
        self._outage = outage
        self._requests: dict[Request, None] = {}

    def add(self, request: Request) -> None:
        self._requests[request] = None

    def discard(self, request: Request) -> None:
        self._requests.pop(request, None)

    def overdue(self, now: float) -> list[tuple[Request, StorageUnavailable]]:
        """Those that have waited for too long, with what to tell their clients; by the clock of their `started`."""
        problem = self._outage()
        if problem is None:
            return []
        latest = now - ANSWERED_AFTER_SECONDS
        error = StorageUnavailable(problem=f"{problem}; what was asked for may have been done")
        return [(each, error) for each in self._requests if each.started <= latest and _waits_for_the_store(each)]


def _waits_for_the_store(request: Request) -> bool:
    exchange = request.exchange
    return exchange.is_whole and not exchange.status and not exchange.is_lost and not request.waits
