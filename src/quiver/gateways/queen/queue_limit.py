"""maxSize: pushes fail while too many messages of a queue wait."""

from typing import TYPE_CHECKING

from quiver.gateways.queen.options import options_of
from quiver.gateways.queen.queue_numbers import unsettled_count
from quiver.model.errors import InvalidRequest
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


def has_limit(topic: Topic) -> bool:
    return options_of(topic).max_size > 0


async def full_queue(broker: "Facade", topic: Topic, count: int) -> InvalidRequest | None:
    """Why so many more messages have no room; None if they have. Pushes at the same time do not see each other."""
    limit = options_of(topic).max_size
    waiting = await unsettled_count(broker, topic)
    if waiting + count <= limit:
        return None
    return InvalidRequest(problem=f"queue {topic.name!r} is full: {waiting} messages wait, maxSize is {limit}")
