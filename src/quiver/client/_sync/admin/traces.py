# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""What happened to messages: `q.traces`."""

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.model.trace.life import MessageLife
from quiver.protocol.life_messages import GetLife, Life


class Traces:
    def __init__(self, broker: ReconnectingConnection) -> None:
        self._broker = broker

    def message(self, topic: str, partition: int, offset: int) -> MessageLife:
        """The life of a message: every event in order, and where it is now for each group.

        Raises MessageNotFound, which says why there is no message.
        """
        answer = (self._broker.call(GetLife(topic, partition, offset))).answer
        if not isinstance(answer, Life):
            raise unexpected(answer)
        return answer.life
