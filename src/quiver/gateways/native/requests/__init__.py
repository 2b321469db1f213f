"""What each request asks of the broker, by capability."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.gateways.native.requests.dead_letters import DEAD_LETTER_RESPONSES
from quiver.gateways.native.requests.delays import DELAY_RESPONSES
from quiver.gateways.native.requests.groups import GROUP_RESPONSES
from quiver.gateways.native.requests.life import LIFE_RESPONSES
from quiver.gateways.native.requests.queues import QUEUE_RESPONSES
from quiver.gateways.native.requests.schedules import SCHEDULE_RESPONSES
from quiver.gateways.native.requests.search import SEARCH_RESPONSES
from quiver.gateways.native.requests.topics import TOPIC_RESPONSES
from quiver.gateways.native.requests.transactions import TRANSACTION_RESPONSES
from quiver.protocol.message import Message
from quiver.protocol.messages import Fetch, Hello, Produce
from quiver.protocol.queue_messages import Receive
from quiver.routing.facade import Facade

RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    **TOPIC_RESPONSES,
    **GROUP_RESPONSES,
    **QUEUE_RESPONSES,
    **LIFE_RESPONSES,
    **DEAD_LETTER_RESPONSES,
    **DELAY_RESPONSES,
    **SCHEDULE_RESPONSES,
    **TRANSACTION_RESPONSES,
    **SEARCH_RESPONSES,
}
"""By type of request. Hello, Produce, Fetch and Receive are not here: the session handles them itself."""
_OF_SESSION: list[type[Message]] = [Hello, Produce, Fetch, Receive]
OPERATIONS = [kind.__name__ for kind in (*_OF_SESSION, *RESPONSES)]
