"""What requests about the life of a message ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.broker.broker import Broker
from quiver.protocol.life_messages import GetLife, Life
from quiver.protocol.message import Message


async def _life(broker: Broker, request: GetLife) -> Message:
    return Life(await broker.life.of(request.topic, request.partition, request.offset))


LIFE_RESPONSES: dict[type[Message], Callable[[Broker, Any], Awaitable[Message]]] = {GetLife: _life}
