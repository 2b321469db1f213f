"""Everything that this worker does for others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers
from quiver.routing.dead_letters.handlers import DeadLetterHandlers
from quiver.routing.delays.handlers import DelayHandlers
from quiver.routing.looks.handlers import LookHandlers
from quiver.routing.messages.handlers import MessageHandlers
from quiver.routing.outbox.handlers import MoveHandlers
from quiver.routing.queues.handlers import QueueHandlers, QueueLookHandlers
from quiver.routing.schedules.handlers import ScheduleHandlers
from quiver.routing.search.handlers import SearchHandlers, TailHandlers
from quiver.routing.topics.handlers import TopicHandlers
from quiver.routing.transactions.handlers import TransactionHandlers


def add_handlers(handlers: Handlers, broker: Broker) -> None:
    """One line per capability; calls are begun when the broker has started."""
    TopicHandlers(broker, handlers)
    MessageHandlers(broker, handlers)
    LookHandlers(broker, handlers)
    SearchHandlers(broker, handlers)
    TailHandlers(broker, handlers)
    MoveHandlers(broker, handlers)
    QueueHandlers(broker, handlers)
    QueueLookHandlers(broker, handlers)
    DeadLetterHandlers(broker, handlers)
    DelayHandlers(broker, handlers)
    ScheduleHandlers(broker, handlers)
    TransactionHandlers(broker, handlers)
