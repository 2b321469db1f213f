"""Calls to the owner of a group's members and offsets: this worker, or another one."""

from typing import Any

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.routing.owned_calls import OwnedCalls
from quiver.routing.owned_request import OwnedRequest
from quiver.routing.owners import Owners


class GroupRoute:
    def __init__(self, calls: OwnedCalls, owners: Owners, peers: Peers) -> None:
        self._calls, self._placement, self._peers = calls, owners.placement, peers

    def is_own(self, group: str) -> bool:
        return self._placement.group_worker(group) == self._placement.worker

    async def call(self, group: str, request: OwnedRequest[R]) -> R:
        return await self._calls.call(self._placement.group_worker(group), request)

    async def ask(self, group: str, request: OwnedRequest[R]) -> R:
        """The same, for a call whose repeat is harmless: if its worker dies, the successor is asked."""
        return await self._calls.ask(self._placement.group_worker(group), request)

    def tell(self, group: str, request: PeerRequest[Any]) -> None:
        """The owner of a group, which is another worker; nobody waits for it."""
        self._peers.tell(self._placement.group_worker(group), request)
