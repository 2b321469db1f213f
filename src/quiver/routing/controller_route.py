"""Calls to the worker that has what there is once: this worker, or another one."""

from quiver.broker.broker import Broker
from quiver.cluster.placement import CONTROLLER
from quiver.links.peers import Peers
from quiver.links.request import R
from quiver.routing.owned_request import OwnedRequest


class ControllerRoute:
    def __init__(self, local: Broker, peers: Peers) -> None:
        self._local, self._peers = local, peers

    async def call(self, request: OwnedRequest[R]) -> R:
        if self._peers.worker == CONTROLLER:
            return await request.carry_out(self._local)
        return (await self._peers.call(CONTROLLER, request)).value
