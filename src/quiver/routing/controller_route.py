"""Calls to the worker that has what there is once: this worker, or another one."""

from quiver.cluster.placement import CONTROLLER
from quiver.links.request import R
from quiver.routing.owned_calls import OwnedCalls
from quiver.routing.owned_request import OwnedRequest


class ControllerRoute:
    def __init__(self, calls: OwnedCalls) -> None:
        self._calls = calls

    async def call(self, request: OwnedRequest[R]) -> R:
        return await self._calls.call(CONTROLLER, request)
