"""The routes of Queen's interface, by what they are for."""

from typing import TYPE_CHECKING

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.queen.acks.acknowledger import Acknowledger
from quiver.gateways.queen.acks.held_acks import AckFinder
from quiver.gateways.queen.acks.leased_messages import LeasedMessages
from quiver.gateways.queen.pops import Pops
from quiver.gateways.queen.queues import QueenQueues
from quiver.gateways.queen.records import QueenRecords
from quiver.gateways.queen.routes.acks import ack_routes
from quiver.gateways.queen.routes.configure import configure_routes
from quiver.gateways.queen.routes.consumer_groups import consumer_group_routes
from quiver.gateways.queen.routes.dead_letters import dead_letter_routes
from quiver.gateways.queen.routes.leases import lease_routes
from quiver.gateways.queen.routes.messages import message_routes
from quiver.gateways.queen.routes.pop import pop_routes
from quiver.gateways.queen.routes.push import push_routes
from quiver.gateways.queen.routes.resources import resource_routes
from quiver.gateways.queen.routes.transaction import transaction_routes
from quiver.gateways.queen.seek import PartitionSeek
from quiver.gateways.queen.subscriptions import Subscriptions
from quiver.gateways.queen.transactions.committer import Committer

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


def queen_routes(broker: "Facade") -> Routes:
    queues, leased = QueenQueues(broker), LeasedMessages(broker)
    subscriptions = Subscriptions(QueenRecords(broker))
    finder, committer = AckFinder(broker, leased), Committer(broker)
    merged: dict[str, dict[str, Operation]] = {}
    for part in (
        push_routes(broker, queues),
        pop_routes(broker, queues, leased, Pops(broker, subscriptions)),
        ack_routes(Acknowledger(broker, finder)),
        transaction_routes(broker, queues, finder, committer),
        lease_routes(broker),
        configure_routes(queues),
        dead_letter_routes(broker, queues),
        message_routes(broker, queues),
        resource_routes(broker, queues),
        consumer_group_routes(broker, queues, subscriptions, PartitionSeek(broker)),
    ):
        for path, operations in part.items():
            merged.setdefault(path, {}).update(operations)
    return merged
