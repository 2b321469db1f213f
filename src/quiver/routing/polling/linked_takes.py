"""Takes for members at the owners of partitions elsewhere."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from quiver.links.peers import Peers
from quiver.links.request import Reply
from quiver.model.errors import QuiverError
from quiver.model.names import TopicPartition
from quiver.protocol.link_messages import link_error
from quiver.routing.late_results import call_leasing
from quiver.routing.polling.polled_parts import all_received, polled_of
from quiver.routing.polling.requests import AskedPart, TakeForMember, TakenParts
from quiver.routing.queues.service import RoutedQueues
from quiver.streams.owners.port import Claim, PartToTake, PolledPartition, TakenMessages
from quiver.topics.catalogue import TopicCatalogue


class Take(Protocol):
    async def __call__(
        self, claim: Claim, parts: Sequence[PartToTake], *, limit: int, max_bytes: int, taken: TakenMessages
    ) -> None: ...


class LinkedTakes:
    """What comes back for a member that no longer has the partition, or for a caller who no longer waits, is given
    back: the delivery does not count."""

    def __init__(self, catalogue: TopicCatalogue, peers: Peers, queues: RoutedQueues) -> None:
        self._catalogue, self._peers, self._queues = catalogue, peers, queues

    def at(self, worker: int) -> Take:
        return partial(self._take, worker)

    async def give_back(self, polled: Sequence[PolledPartition]) -> None:
        await self._queues.give_back(all_received(polled))

    async def _take(
        self,
        worker: int,
        claim: Claim,
        parts: Sequence[PartToTake],
        *,
        limit: int,
        max_bytes: int,
        taken: TakenMessages,
    ) -> None:
        asked = [AskedPart(part.partition, part.ends_own, claim.commit(part.partition)) for part in parts]
        request = TakeForMember(claim.group, claim.member_id, claim.generation, asked, limit, max_bytes)
        try:
            reply = await call_leasing(self._peers, worker, request, self._on_late)
            polled = polled_of(reply.value.polled, reply.payload, self._catalogue)
        except QuiverError as error:
            taken.problem = error
            return
        taken.reached.update(reply.value.reached)
        if reply.value.problem is not None:
            taken.problem = link_error(reply.value.problem)
        for part in polled:
            if self._is_current(claim, part, taken):
                taken.polled.append(part)
            else:
                self._queues.give_back_later(part.received)

    def _is_current(self, claim: Claim, part: PolledPartition, taken: TakenMessages) -> bool:
        try:
            return claim.is_current(TopicPartition(part.topic.id, part.partition))
        except QuiverError as error:  # the member is gone
            taken.problem = error
            return False

    def _on_late(self, reply: Reply[TakenParts]) -> None:
        polled = polled_of(reply.value.polled, reply.payload, self._catalogue)
        self._queues.give_back_later(all_received(polled))
