"""The depth of queues: how many messages each group still has to process."""

from collections.abc import Sequence

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.model.names import check_name
from quiver.protocol.queue_messages import DescribeQueues, PauseQueue, QueueDepth, QueueDepths, ResumeQueue


class AsyncQueues:
    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker

    async def depths(self, topic: str) -> Sequence[QueueDepth]:
        """For every queue group that has used the topic: ready, leased, retrying, delayed, dead, age, consumers."""
        return await self._ask(topic, None)

    async def depth(self, topic: str, group: str) -> QueueDepth:
        """For one group. Raises GroupNotFound if it has not used the topic."""
        [found] = await self._ask(topic, check_name(group, "group"))
        return found

    async def pause(self, topic: str, group: str, reason: str = "") -> None:
        """The group gets nothing from the topic until `resume`, also after a restart; what it holds it can settle."""
        await self._broker.call(PauseQueue(check_name(topic), check_name(group, "group"), reason))

    async def resume(self, topic: str, group: str) -> None:
        """Consumers that wait get messages again. Does nothing if the group is not paused there."""
        await self._broker.call(ResumeQueue(check_name(topic), check_name(group, "group")))

    async def _ask(self, topic: str, group: str | None) -> Sequence[QueueDepth]:
        answer = (await self._broker.call(DescribeQueues(check_name(topic), group))).answer
        if not isinstance(answer, QueueDepths):
            raise unexpected(answer)
        return answer.queues
