"""What this worker does for others about topics: changes if it is worker 0, and its part of what others change."""

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.model.topic import Topic
from quiver.routing.topics.requests import (
    AddPartitions,
    Alter,
    Create,
    Delete,
    Describe,
    Ended,
    Ensure,
    Opened,
    Prepare,
)
from quiver.topics.details import PartitionDetails


class TopicHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        handlers.add(Create, self._create)
        handlers.add(Ensure, self._ensure)
        handlers.add(Alter, self._alter)
        handlers.add(AddPartitions, self._add_partitions)
        handlers.add(Delete, self._delete)
        handlers.add(Prepare, self._prepare)
        handlers.add(Opened, self._opened)
        handlers.add(Ended, self._ended)
        handlers.add(Describe, self._describe)

    async def _create(self, request: Create, payload: memoryview) -> Reply[Topic]:
        return Reply(await self._broker.create_topic(request.name, request.settings))

    async def _ensure(self, request: Ensure, payload: memoryview) -> Reply[None]:
        await self._broker.ensure_topic(request.name)
        return DONE

    async def _alter(self, request: Alter, payload: memoryview) -> Reply[Topic]:
        return Reply(await self._broker.alter_topic(request.name, request.settings))

    async def _add_partitions(self, request: AddPartitions, payload: memoryview) -> Reply[tuple[int, int]]:
        return Reply(await self._broker.add_partitions(request.name, request.count))

    async def _delete(self, request: Delete, payload: memoryview) -> Reply[None]:
        await self._broker.delete_topic(request.name)
        return DONE

    async def _prepare(self, request: Prepare, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.prepare(request.topic)
        return DONE

    async def _opened(self, request: Opened, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.opened(request.topic_id)
        return DONE

    async def _ended(self, request: Ended, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.ended(request.topic_id)
        return DONE

    async def _describe(self, request: Describe, payload: memoryview) -> Reply[list[PartitionDetails]]:
        return Reply((await self._broker.describe(request.name)).partitions)
