"""Calls to the owner of a group's members and offsets."""

from typing import Any

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.routing.owners import Owners
from quiver.routing.repeated import call_again


class GroupCalls:
    def __init__(self, owners: Owners, peers: Peers) -> None:
        self._placement, self._peers = owners.placement, peers

    def is_own(self, group: str) -> bool:
        return self._placement.group_worker(group) == self._placement.worker

    async def call(self, group: str, request: PeerRequest[R]) -> R:
        """Of a group that another worker owns."""
        return (await self._peers.call(self._placement.group_worker(group), request)).value

    async def ask(self, group: str, request: PeerRequest[R]) -> R:
        """The same, for a call whose repeat is harmless."""
        return await call_again(self._peers, self._placement.group_worker(group), request)

    def tell(self, group: str, request: PeerRequest[Any]) -> None:
        self._peers.tell(self._placement.group_worker(group), request)
