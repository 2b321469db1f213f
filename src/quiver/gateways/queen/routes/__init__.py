"""The routes of Queen's interface, by what they are for."""

from typing import TYPE_CHECKING

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.queen.acks.acknowledger import Acknowledger
from quiver.gateways.queen.acks.held_acks import AckFinder
from quiver.gateways.queen.acks.leased_messages import LeasedMessages
from quiver.gateways.queen.maintenance.buffer import PushBuffer
from quiver.gateways.queen.maintenance.modes import Modes
from quiver.gateways.queen.partition_index import PartitionIndex
from quiver.gateways.queen.pops.receiving import Pops
from quiver.gateways.queen.pops.subscriptions import Subscriptions
from quiver.gateways.queen.queues import QueenQueues
from quiver.gateways.queen.records import QueenRecords
from quiver.gateways.queen.routes.acks import ack_routes
from quiver.gateways.queen.routes.configure import configure_routes
from quiver.gateways.queen.routes.consumer_groups import consumer_group_routes
from quiver.gateways.queen.routes.dead_letters import dead_letter_routes
from quiver.gateways.queen.routes.leases import lease_routes
from quiver.gateways.queen.routes.messages import message_routes
from quiver.gateways.queen.routes.operate.maintenance import maintenance_routes
from quiver.gateways.queen.routes.operate.resources import resource_routes
from quiver.gateways.queen.routes.operate.status import status_routes
from quiver.gateways.queen.routes.operate.traces import queen_trace_routes
from quiver.gateways.queen.routes.pop import pop_routes
from quiver.gateways.queen.routes.push import PushRoute, push_routes
from quiver.gateways.queen.routes.streams import StreamRoutes, stream_routes
from quiver.gateways.queen.routes.transaction import transaction_routes
from quiver.gateways.queen.seek import PartitionSeek
from quiver.gateways.queen.stream_state.queries import Queries
from quiver.gateways.queen.stream_state.tables import StateTables
from quiver.gateways.queen.transactions.committer import Committer

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


def queen_routes(broker: "Facade") -> Routes:
    queues, leased, records = QueenQueues(broker), LeasedMessages(broker), QueenRecords(broker)
    finder, committer, index = AckFinder(broker, leased), Committer(broker), PartitionIndex(broker)
    merged: dict[str, dict[str, Operation]] = {}
    for part in (
        *_working_routes(broker, queues, leased, records, finder, committer),
        transaction_routes(broker, queues, finder, committer),
        ack_routes(Acknowledger(broker, finder)),
        lease_routes(broker),
        configure_routes(queues),
        dead_letter_routes(broker, queues),
        message_routes(broker, queues),
        resource_routes(broker, queues, index),
        status_routes(broker, queues, index),
        queen_trace_routes(broker),
    ):
        for path, operations in part.items():
            merged.setdefault(path, {}).update(operations)
    return merged


def _working_routes(
    broker: "Facade",
    queues: QueenQueues,
    leased: LeasedMessages,
    records: QueenRecords,
    finder: AckFinder,
    committer: Committer,
) -> list[Routes]:
    """Those that remember something."""
    modes, subscriptions, tables = Modes(broker, records), Subscriptions(records), StateTables(broker)
    buffer = PushBuffer(broker, queues, modes, committer)
    queries = Queries(records, tables, committer)
    return [
        push_routes(PushRoute(broker, queues, modes, buffer)),
        pop_routes(broker, queues, leased, Pops(broker, subscriptions, modes)),
        consumer_group_routes(broker, queues, subscriptions, PartitionSeek(broker)),
        maintenance_routes(broker, modes, buffer),
        stream_routes(StreamRoutes(broker, queues, finder, committer, queries=queries, tables=tables)),
    ]
