"""GET /api/v1/pop: leases messages of one partition of a queue, or of several."""

import asyncio
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.leased_messages import LeasedMessages
from quiver.gateways.queen.popped import Popped, PopResponse
from quiver.gateways.queen.queues import QueenQueues, checked_queue, group_name, partition_key
from quiver.model.errors import GroupKindMismatch, GroupOrderingMismatch, InvalidName, InvalidRequest, QuiverError
from quiver.model.limits import LONGEST_WAIT_MS, MESSAGES_AT_ONCE, PAGE_BYTES
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.model.times import parse_time_ms

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade

_MOST_PARTITIONS = 1_000
_LOOK_SECONDS = 0.1
"""How often a pop that waits for a queue that does not exist looks for it."""
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
    partitions: Annotated[int, Meta(ge=1, description="Messages of at most this many partitions.")] = 1


class PopRoutes:
    def __init__(self, broker: "Facade", queues: QueenQueues, leased: LeasedMessages) -> None:
        self._broker = broker
        self._queues = queues
        self._leased = leased

    async def pop(self, request: Request) -> Response:
        """From one queue; from one partition of it if the path names it."""
        query = request.query(PopQuery)
        name = checked_queue(unquote(request.params["queue"]))
        named = request.params.get("partition_name")
        key = None if named is None else partition_key(unquote(named))
        asked = self._asked(query, key, request.connection)
        request.check_room()
        request.waits = query.wait
        received = await request.while_connected(self._receive(name, asked))
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
            start=_start(query),
            key=key,
            max_keys=None if key is not None else min(query.partitions, _MOST_PARTITIONS),
        )

    async def _receive(self, name: str, asked: ReceiveRequest) -> "list[Received]":
        """A queue that does not exist may be created while somebody waits for its messages."""
        until = self._broker.clock.monotonic() + asked.wait_ms / 1000
        topic = self._queues.find(name)
        while topic is None:
            left = until - self._broker.clock.monotonic()
            if left <= 0:
                return []
            await asyncio.sleep(min(left, _LOOK_SECONDS))
            topic = self._queues.find(name)
        left_ms = max(0, round((until - self._broker.clock.monotonic()) * 1000))
        wait_ms = min(asked.wait_ms, left_ms)
        return await self._broker.queues.receive(
            msgspec.structs.replace(asked, topic_ids=[topic.id], wait_ms=wait_ms)
        )

    async def _response(self, request: Request, query: PopQuery, received: "list[Received]") -> Response:
        popped = Popped(received, group_name(query.consumer_group), is_acked=query.auto_ack)
        try:
            request.hold(popped.size_bytes)
            messages = await popped.messages(request.response_media)
        except (QuiverError, asyncio.CancelledError):
            self._broker.queues.give_back_later(received)
            raise
        if query.auto_ack:
            await self._ack(received)
        else:
            self._leased.add(popped.batches)
        return Response(popped.response(messages))

    async def _ack(self, received: "list[Received]") -> None:
        parts = [
            SettleRequest(one.topic.id, one.run.partition, one.run.group_id, one.run.lease_id, ACK, [run])
            for one in received
            for run in [(one.run.start, one.run.end)]
        ]
        for settlement in await self._broker.queues.settle(parts):
            if settlement.refused:
                raise settlement.refused[0].error


def _start(query: PopQuery) -> Position:
    """Only the first contact of a group with a queue looks at it."""
    if query.subscription_from == "now" or (query.subscription_from is None and query.subscription_mode == "new"):
        return LATEST
    if query.subscription_from is None:
        return EARLIEST
    return Position("time", parse_time_ms(query.subscription_from, "subscriptionFrom"))


def pop_routes(broker: "Facade", queues: QueenQueues, leased: LeasedMessages) -> Routes:
    operation = Operation(
        handler=PopRoutes(broker, queues, leased).pop,
        summary="Pop messages: they are leased until they are acked; 204 when there are none",
        tag="Queen",
        query=PopQuery,
        response=PopResponse,
        other_status=204,
        errors=(InvalidRequest, InvalidName, GroupKindMismatch, GroupOrderingMismatch),
    )
    return {
        "/api/v1/pop/queue/{queue}": {"GET": operation},
        "/api/v1/pop/queue/{queue}/partition/{partition_name}": {"GET": operation},
    }
