"""Calls to the owner of a group's members and offsets: this worker, or another one."""

from typing import Any

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.routing.owned_request import OwnedRequest
from quiver.routing.owners import Owners
from quiver.routing.repeated import call_again


class GroupRoute:
    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._placement, self._peers = local, owners.placement, peers

    def is_own(self, group: str) -> bool:
        return self._placement.group_worker(group) == self._placement.worker

    async def call(self, group: str, request: OwnedRequest[R]) -> R:
        if self.is_own(group):
            return await request.carry_out(self._local)
        return (await self._peers.call(self._placement.group_worker(group), request)).value

    async def ask(self, group: str, request: OwnedRequest[R]) -> R:
        """The same, for a call whose repeat is harmless: if its worker dies, the successor is asked."""
        if self.is_own(group):
            return await request.carry_out(self._local)
        return await call_again(self._peers, self._placement.group_worker(group), request)

    def tell(self, group: str, request: PeerRequest[Any]) -> None:
        """The owner of a group, which is another worker; nobody waits for it."""
        self._peers.tell(self._placement.group_worker(group), request)
