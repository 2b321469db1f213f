"""Calls to one worker: this one carries them out itself, others get them over their link."""

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.links.request import R
from quiver.routing.owned_request import OwnedRequest
from quiver.routing.repeated import call_again
from quiver.routing.scatter import Look, Scatter


class OwnedCalls:
    def __init__(self, local: Broker, peers: Peers) -> None:
        self._local, self._peers, self._scatter = local, peers, Scatter(peers)
        self.workers = peers.workers

    async def call(self, worker: int, request: OwnedRequest[R]) -> R:
        if worker == self._peers.worker:
            return await request.carry_out(self._local)
        return (await self._peers.call(worker, request)).value

    async def ask(self, worker: int, request: OwnedRequest[R]) -> R:
        """The same, for a call whose repeat is harmless: if its worker dies, the successor is asked."""
        if worker == self._peers.worker:
            return await request.carry_out(self._local)
        return await call_again(self._peers, worker, request)

    async def look(self, request: OwnedRequest[R]) -> Look[R]:
        """At all workers at the same time: see `Scatter.look`."""
        return await self._scatter.look(request, lambda: request.carry_out(self._local))
