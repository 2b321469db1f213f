"""What happened to messages: `q.traces`."""

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.model.trace.life import MessageLife
from quiver.protocol.life_messages import GetLife, Life


class AsyncTraces:
    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker

    async def message(self, topic: str, partition: int, offset: int) -> MessageLife:
        """The life of a message: every event in order, and where it is now for each group.

        Raises MessageNotFound, which says why there is no message.
        """
        answer = (await self._broker.call(GetLife(topic, partition, offset))).answer
        if not isinstance(answer, Life):
            raise unexpected(answer)
        return answer.life
