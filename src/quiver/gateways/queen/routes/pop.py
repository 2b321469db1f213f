"""GET /api/v1/pop: leases messages of one partition of a queue, or of several."""

from functools import partial
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.leased_messages import LeasedMessages
from quiver.gateways.queen.pops.popped import Popped, PopResponse
from quiver.gateways.queen.pops.receiving import Pops
from quiver.gateways.queen.pops.subscriptions import Subscription
from quiver.gateways.queen.queues import QueenQueues, checked_queue, group_name, partition_key
from quiver.model.errors import GroupKindMismatch, GroupOrderingMismatch, InvalidName, InvalidRequest
from quiver.model.limits import LONGEST_WAIT_MS, MESSAGES_AT_ONCE, PAGE_BYTES
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.times import parse_time_ms
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade

_MOST_PARTITIONS = 1_000
_NOTHING = Response(b"", 204, content_type=b"application/json")


class PopQuery(msgspec.Struct, kw_only=True, rename="camel"):
    batch: Annotated[int, Meta(ge=1, description="At most 10,000; a larger one counts as that.")] = 1
    wait: bool = False
    timeout: Annotated[int, Meta(ge=0, description="With `wait`, in milliseconds; at most 5 minutes.")] = 30_000
    consumer_group: Annotated[str | None, Meta(description="Without one, all such pops share a position.")] = None
    auto_ack: bool = False
    subscription_mode: Annotated[
        str, Meta(description="`new`: a new group starts at the end; else at the start.")
    ] = "all"
    subscription_from: Annotated[str | None, Meta(description="Where a new group starts: `now`, or a time.")] = None
    namespace: Annotated[str | None, Meta(description="Without a queue: from any queue of the namespace.")] = None
    task: Annotated[str | None, Meta(description="Without a queue: from any queue with the task.")] = None
    partitions: Annotated[int, Meta(ge=1, description="Messages of at most this many partitions.")] = 1


class PopRoutes:
    def __init__(self, broker: "Facade", queues: QueenQueues, leased: LeasedMessages, pops: Pops) -> None:
        self._broker = broker
        self._pops = pops
        self._queues = queues
        self._leased = leased

    async def pop(self, request: Request) -> Response:
        """From one queue, from one partition of it, or from the queues of a namespace or task."""
        query = request.query(PopQuery)
        name = request.params.get("queue")
        if name is None and query.namespace is None and query.task is None:
            raise InvalidRequest(problem="name a queue in the path, or a namespace or task in the query")
        find = partial(self._chosen, query) if name is None else partial(self._named, checked_queue(unquote(name)))
        named = request.params.get("partition_name")
        key = None if named is None else partition_key(unquote(named))
        asked = self._asked(query, key, request.connection)
        wanted = _subscription(query, self._broker.clock.now_ms())
        request.check_room()
        request.waits = query.wait
        received = await request.while_connected(self._pops.receive(find, wanted, asked))
        return await self._response(request, query, received) if received else _NOTHING

    def _asked(self, query: PopQuery, key: bytes | None, connection: str) -> ReceiveRequest:
        return ReceiveRequest(
            topic_ids=(),
            group=group_name(query.consumer_group),
            consumer=connection,
            max_messages=min(query.batch, MESSAGES_AT_ONCE),
            max_bytes=PAGE_BYTES,
            wait_ms=min(query.timeout, LONGEST_WAIT_MS) if query.wait else 0,
            ordering="key",
            key=key,
            max_keys=None if key is not None else min(query.partitions, _MOST_PARTITIONS),
        )

    def _named(self, name: str) -> list[Topic]:
        topic = self._queues.find(name)
        return [] if topic is None else [topic]

    def _chosen(self, query: PopQuery) -> list[Topic]:
        return self._queues.chosen(query.namespace, query.task)

    async def _response(self, request: Request, query: PopQuery, received: "list[Received]") -> Response:
        request.if_unsent(partial(self._broker.queues.give_back_later, received))
        popped = Popped(received, group_name(query.consumer_group), is_acked=query.auto_ack)
        request.hold(popped.size_bytes)
        response = await popped.response(request.response_media)
        if query.auto_ack:
            await self._ack(received)
        else:
            self._leased.add(popped.batches)
        return response

    async def _ack(self, received: "list[Received]") -> None:
        parts = [
            SettleRequest(one.topic.id, one.run.partition, one.run.group_id, one.run.lease_id, ACK, [run])
            for one in received
            for run in [(one.run.start, one.run.end)]
        ]
        for settlement in await self._broker.queues.settle(parts):
            if settlement.refused:
                raise settlement.refused[0].error


def _subscription(query: PopQuery, now_ms: int) -> Subscription:
    """Only the first contact of a group with a queue looks at it."""
    if query.subscription_from == "now" or (query.subscription_from is None and query.subscription_mode == "new"):
        return Subscription(mode="new", from_ms=now_ms)
    if query.subscription_from is None:
        return Subscription(mode="all")
    return Subscription(mode="timestamp", from_ms=parse_time_ms(query.subscription_from, "subscriptionFrom"))


def pop_routes(broker: "Facade", queues: QueenQueues, leased: LeasedMessages, pops: Pops) -> Routes:
    operation = Operation(
        handler=PopRoutes(broker, queues, leased, pops).pop,
        summary="Pop messages: they are leased until they are acked; 204 when there are none",
        tag="Queen",
        query=PopQuery,
        response=PopResponse,
        other_status=204,
        errors=(InvalidRequest, InvalidName, GroupKindMismatch, GroupOrderingMismatch),
    )
    return {
        "/api/v1/pop": {"GET": operation},
        "/api/v1/pop/queue/{queue}": {"GET": operation},
        "/api/v1/pop/queue/{queue}/partition/{partition_name}": {"GET": operation},
    }
