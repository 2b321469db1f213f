"""Everything that this worker does for others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers
from quiver.routing.looks.handlers import LookHandlers
from quiver.routing.messages.handlers import MessageHandlers
from quiver.routing.topics.handlers import TopicHandlers


def add_handlers(handlers: Handlers, broker: Broker) -> None:
    """One line per capability; calls are begun when the broker has started."""
    TopicHandlers(broker, handlers)
    MessageHandlers(broker, handlers)
    LookHandlers(broker, handlers)
