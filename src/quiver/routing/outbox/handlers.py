"""This worker's partitions as targets of moves of others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, Reply
from quiver.model.errors import PartitionNotFound, PartitionOffline, TopicNotFound
from quiver.outbox.outbox import Target
from quiver.routing.outbox.requests import AppendMoved


class MoveHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._targets, self._catalogue = broker.move_targets, broker.metadata.catalogue
        handlers.add(AppendMoved, self._append)

    async def _append(self, request: AppendMoved, payload: memoryview) -> Reply[None]:
        try:
            await self._targets.append_here(request.target, request.frame)
        except (TopicNotFound, PartitionNotFound):
            if self._is_stored(request.target):  # not open yet, or it could not be opened: the source has to wait
                place = f"partition {request.target.partition} of topic id {request.target.topic_id}"
                raise PartitionOffline(partition=place, problem="it is not open") from None
            raise
        return Reply(None)

    def _is_stored(self, target: Target) -> bool:
        return any(
            topic.id == target.topic_id and target.partition < topic.config.partitions
            for topic in self._catalogue.stored()
        )
