"""The routes of Queen's interface, by what they are for."""

from typing import TYPE_CHECKING

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.queen.acks.acknowledger import Acknowledger
from quiver.gateways.queen.acks.held_acks import AckFinder
from quiver.gateways.queen.acks.leased_messages import LeasedMessages
from quiver.gateways.queen.queues import QueenQueues
from quiver.gateways.queen.routes.acks import ack_routes
from quiver.gateways.queen.routes.configure import configure_routes
from quiver.gateways.queen.routes.dead_letters import dead_letter_routes
from quiver.gateways.queen.routes.leases import lease_routes
from quiver.gateways.queen.routes.pop import pop_routes
from quiver.gateways.queen.routes.push import push_routes
from quiver.gateways.queen.routes.transaction import transaction_routes
from quiver.gateways.queen.transactions.committer import Committer

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


def queen_routes(broker: "Facade") -> Routes:
    queues, leased = QueenQueues(broker), LeasedMessages(broker)
    finder, committer = AckFinder(broker, leased), Committer(broker)
    merged: dict[str, dict[str, Operation]] = {}
    for part in (
        push_routes(broker, queues),
        pop_routes(broker, queues, leased),
        ack_routes(Acknowledger(broker, finder)),
        transaction_routes(broker, queues, finder, committer),
        lease_routes(broker),
        configure_routes(queues),
        dead_letter_routes(broker, queues),
    ):
        for path, operations in part.items():
            merged.setdefault(path, {}).update(operations)
    return merged
