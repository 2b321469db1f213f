"""What this worker does with its partitions for others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, Reply
from quiver.partition.pending import Appended
from quiver.routing.messages.requests import FindOffset, Produce


class MessageHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        handlers.add(Produce, self._produce)
        handlers.add(FindOffset, self._find_offset)

    async def _produce(self, request: Produce, payload: memoryview) -> Reply[Appended]:
        """Queued before it waits, so that frames of one worker are written in the order in which they were sent."""
        appended = self._broker.produce(
            request.topic_id, request.partition, payload, partition_count=request.partition_count
        )
        return Reply(await appended)

    async def _find_offset(self, request: FindOffset, payload: memoryview) -> Reply[int]:
        found = await self._broker.find_offset(
            request.topic_id, request.partition, request.position, read_committed=request.read_committed
        )
        return Reply(found)
