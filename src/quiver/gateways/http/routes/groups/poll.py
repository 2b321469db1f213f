"""GET /groups/{group}/poll: a member's next messages; waits until there are some."""

from collections import Counter
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import DURATION, needed, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.groups.groups import group_of
from quiver.gateways.http.routes.groups.membership import required_member
from quiver.gateways.http.routes.groups.poll_stream import Messages, streamed
from quiver.gateways.http.routes.groups.responses import Labels, labels, partition_refs
from quiver.gateways.http.routes.queues.received import ReceivedMessage, Size, shown_runs
from quiver.model.errors import (
    CorruptData,
    GroupNotFound,
    InvalidName,
    InvalidRequest,
    MemberFenced,
    MemberNotFound,
    Overloaded,
)
from quiver.model.limits import LONGEST_WAIT_MS, MESSAGES_AT_ONCE
from quiver.model.times import parse_duration_ms

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade
    from quiver.streams.owners.port import PolledPartition

AtMost = Meta(ge=1, description="At most 10,000; a larger one counts as that.")


class PollQuery(msgspec.Struct, kw_only=True):
    member_id: Annotated[str | None, needed()] = None
    timeout: Annotated[str, note("How long to wait for messages; at most 5m.", **DURATION)] = "30s"
    limit: Annotated[int, AtMost] = 100
    max_messages: Annotated[int, AtMost] | None = None


class PollResponse(msgspec.Struct, kw_only=True):
    """Messages by partition; with max_messages a list. `offsets` is what to commit when they are processed; or each
    message is acked by its receipt.

    `offsets` stops at the first message that the group has neither committed nor acked and that is not in this
    response; a partition that begins with such a message is left out.

    `next_offset` leaves out partition numbers that two topics of the response share; `offsets` has them all.
    """

    messages: dict[str, list[ReceivedMessage]] | list[ReceivedMessage]
    next_offset: dict[str, int]
    offsets: dict[str, dict[str, int]]
    generation: int
    assigned_partitions: Labels


class PollRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def poll(self, request: Request) -> Response | StreamedResponse:
        group, query = group_of(request), request.query(PollQuery)
        member_id = required_member(query.member_id)
        timeout_ms = min(parse_duration_ms(query.timeout, "timeout"), LONGEST_WAIT_MS)
        limit = min(query.limit if query.max_messages is None else query.max_messages, MESSAGES_AT_ONCE)
        request.check_room()
        request.waits = True
        polled = await self._wait(request, group, member_id, timeout_ms, limit)
        received = [one for part in polled for one in part.received]
        request.if_unsent(partial(self._broker.queues.give_back_later, received))
        messages, size = _messages(polled, query.max_messages is None), Size(received)
        tail = await self._tail(group, member_id, polled)
        if size.is_small:
            return Response(PollResponse(messages=_to_response(messages), **tail))
        request.hold(size.bytes)
        media = request.response_media
        return StreamedResponse(streamed(media, messages, tail), media)

    async def _wait(
        self, request: Request, group: str, member_id: str, timeout_ms: int, limit: int
    ) -> "list[PolledPartition]":
        """Polls as long as the client is connected: what it does not get must not count as received."""
        return await request.while_connected(
            self._broker.poll.poll(group, member_id, timeout_ms=timeout_ms, limit=limit)
        )

    async def _tail(self, group: str, member_id: str, polled: "list[PolledPartition]") -> dict[str, Any]:
        """The fields that follow the messages."""
        offsets: dict[str, dict[str, int]] = {}
        next_offsets: dict[str, int] = {}
        numbers = Counter(part.partition for part in polled)
        for part in polled:
            if part.next_offset is not None:
                offsets.setdefault(part.topic.name, {})[str(part.partition)] = part.next_offset
                if numbers[part.partition] == 1:
                    next_offsets[str(part.partition)] = part.next_offset
        told = await self._broker.poll_members.told(group, member_id)
        refs = [] if told is None else partition_refs(self._broker, told.assigned)
        return {
            "next_offset": next_offsets,
            "offsets": offsets,
            "generation": 0 if told is None else told.generation,
            "assigned_partitions": labels(refs),
        }


def poll_routes(broker: "Facade") -> Routes:
    operation = Operation(
        handler=PollRoute(broker).poll,
        summary="A member's next messages; waits until there are some, and counts as a heartbeat",
        tag="Groups",
        query=PollQuery,
        response=PollResponse,
        errors=(InvalidRequest, InvalidName, GroupNotFound, MemberNotFound, MemberFenced, CorruptData, Overloaded),
    )
    return {"/groups/{group}/poll": {"GET": operation}}


def _messages(polled: "list[PolledPartition]", by_partition: bool) -> Messages:
    """Partitions of the same number in several topics share a list; each message names its topic."""
    if not by_partition:
        return [received for part in polled for received in part.received]
    shown: dict[str, list[Received]] = {}
    for part in polled:
        shown.setdefault(str(part.partition), []).extend(part.received)
    return shown


def _to_response(messages: Messages) -> dict[str, list[ReceivedMessage]] | list[ReceivedMessage]:
    if isinstance(messages, dict):
        return {number: [*chain.from_iterable(shown_runs(received))] for number, received in messages.items()}
    return [*chain.from_iterable(shown_runs(messages))]
