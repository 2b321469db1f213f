"""Everything that this worker does for others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers
from quiver.routing.dead_letters.requests import DEAD_LETTER_REQUESTS
from quiver.routing.delays.requests import DELAY_REQUESTS
from quiver.routing.groups.requests import GROUP_REQUESTS
from quiver.routing.looks.handlers import LookHandlers
from quiver.routing.messages.handlers import MessageHandlers
from quiver.routing.outbox.handlers import MoveHandlers
from quiver.routing.owned_request import add_owned
from quiver.routing.polling.handlers import PollHandlers
from quiver.routing.polling.take_handlers import TakeHandlers
from quiver.routing.queues.handlers import QueueHandlers, QueueLookHandlers
from quiver.routing.schedules.requests import SCHEDULE_REQUESTS
from quiver.routing.search.handlers import SearchHandlers, TailHandlers
from quiver.routing.streams.partition_handlers import PartitionHandlers
from quiver.routing.streams.requests import STREAM_REQUESTS
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
    add_owned(handlers, broker, DEAD_LETTER_REQUESTS)
    add_owned(handlers, broker, DELAY_REQUESTS)
    add_owned(handlers, broker, SCHEDULE_REQUESTS)
    add_owned(handlers, broker, STREAM_REQUESTS)
    PartitionHandlers(broker, handlers)
    PollHandlers(broker, handlers)
    TakeHandlers(broker, handlers)
    add_owned(handlers, broker, GROUP_REQUESTS)
    TransactionHandlers(broker, handlers)
