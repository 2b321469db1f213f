"""Targets of moves that other workers own."""

from quiver.links.peers import Peers
from quiver.model.errors import TopicNotFound
from quiver.outbox.outbox import Target
from quiver.outbox.targets import MovedFrame
from quiver.routing.outbox.requests import AppendMoved
from quiver.routing.owners import Owners


class LinkedTargets:
    def __init__(self, owners: Owners, peers: Peers) -> None:
        self._owners, self._peers = owners, peers

    def owns(self, target: Target) -> bool:
        try:
            return self._owners.of_partition(*target) != self._owners.worker
        except TopicNotFound:
            return False

    async def append(self, target: Target, frame: MovedFrame) -> None:
        await self._peers.call(self._owners.of_partition(*target), AppendMoved(target, frame))
