"""The owners of the partitions of a queue group, as whoever resets or deletes it asks them."""

from collections.abc import Mapping

from quiver.model.errors import QuiverError
from quiver.model.topic import Topic
from quiver.routing.groups.requests import CheckIdle, GroupDeleted, Rewind, SettledOffsets
from quiver.routing.owners import Owners
from quiver.routing.scatter import Scatter
from quiver.streams.owners.own import OwnQueues


class LinkedGroupQueues:
    def __init__(self, own: OwnQueues, owners: Owners, scatter: Scatter) -> None:
        self._own, self._owners, self._scatter = own, owners, scatter

    async def check_idle(self, group: str) -> None:
        await self._scatter.all(CheckIdle(group), lambda: self._own.check_idle(group))

    async def settled_offsets(self, topic: Topic, group: str) -> dict[int, int]:
        request = SettledOffsets(topic.id, group)
        answers = await self._scatter.all(request, lambda: self._own.settled_offsets(topic, group))
        return {number: offset for answer in answers for number, offset in answer.items()}

    async def rewind(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """Each owner by itself: after an error some may have done it, and a repeat does the rest."""
        by_worker: dict[int, dict[int, int]] = {}
        for number, offset in offsets.items():
            by_worker.setdefault(self._owners.of_partition(topic.id, number), {})[number] = offset
        requests = {worker: Rewind(topic.id, group, own) for worker, own in by_worker.items()}
        own = by_worker.get(self._owners.worker, {})
        done = await self._scatter.split(requests, lambda: self._own.rewind(topic, group, own))
        for outcome in done.values():
            if isinstance(outcome, QuiverError):
                raise outcome

    async def group_deleted(self, group_id: int) -> None:
        """A worker that does not respond forgets the group when it sees that its definition is gone."""
        await self._scatter.look(GroupDeleted(group_id), lambda: self._own.group_deleted(group_id))
