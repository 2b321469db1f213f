"""Who holds which message of a queue group; pausing and resuming it."""

from binascii import b2a_base64
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.groups.groups import group_of
from quiver.gateways.http.routes.queues.depth import QueueResponse, queue_response
from quiver.model.errors import GroupNotFound, InvalidName, InvalidRequest, TopicNotFound
from quiver.model.times import format_time
from quiver.queues.leases import HeldMessage, WaitingKey, parse_lease_cursor

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_MOST = 1_000
_LONGEST_REASON = 500


class LeasesQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1, description="At most 1,000; a larger one counts as that.")] = 100
    cursor: Annotated[str, Meta(description="What the page before gave as `next`.")] | None = None


class LeaseResponse(msgspec.Struct, kw_only=True):
    partition: int
    offset: int
    key: Annotated[str | UnsetType, Meta(description="In groups ordered by key.")] = UNSET
    key_base64: str | UnsetType = UNSET
    consumer: str
    attempt: int
    first_delivered: str
    leased_at: Annotated[str | None, Meta(description="Known for the first attempt.")]
    until: Annotated[str, Meta(description="When the lease ends, unless it is extended.")]
    receipt_handle: Annotated[str, Meta(description="For /messages/ack, nack, reject and visibility.")]


class BlockedKeyResponse(msgspec.Struct, kw_only=True):
    key: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    partition: int
    offset: Annotated[int, Meta(description="Of the message that the others wait for.")]
    waiting: int


class LeasesResponse(msgspec.Struct, kw_only=True):
    """By partition and offset; in groups ordered by key the messages of a key are together. A page may be a little
    longer than `limit`."""

    leases: list[LeaseResponse]
    blocked_keys: Annotated[list[BlockedKeyResponse], Meta(description="At most 100, the longest queues first.")]
    next: Annotated[str | None, Meta(description="For `cursor`; null after the last page.")]


class PauseRequest(msgspec.Struct, kw_only=True):
    reason: Annotated[Annotated[str, Meta(max_length=_LONGEST_REASON)] | None, Meta(description="For people.")] = None


class LeaseRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        query = request.query(LeasesQuery)
        after = None if query.cursor is None else parse_lease_cursor(query.cursor)
        page = await self._broker.queue_leases.page(
            request.topic(), group_of(request), limit=min(query.limit, _MOST), after=after
        )
        return Response(
            LeasesResponse(
                leases=[_lease(held) for held in page.leases],
                blocked_keys=[_blocked(key) for key in page.blocked_keys],
                next=None if page.next is None else str(page.next),
            )
        )

    async def pause(self, request: Request) -> Response:
        topic, group, wanted = request.topic(), group_of(request), await request.body(PauseRequest)
        await self._broker.queues.pause(topic, group, wanted.reason or "")
        return Response(queue_response(topic, await self._broker.queue_depths.of(topic, group)))

    async def resume(self, request: Request) -> Response:
        topic, group = request.topic(), group_of(request)
        await self._broker.queues.resume(topic, group)
        return Response(queue_response(topic, await self._broker.queue_depths.of(topic, group)))


def _lease(held: HeldMessage) -> LeaseResponse:
    first = format_time(held.first_delivered_ms)
    return LeaseResponse(
        partition=held.partition,
        offset=held.offset,
        consumer=held.consumer,
        attempt=held.attempt,
        first_delivered=first,
        leased_at=first if held.attempt == 1 else None,
        until=format_time(held.until_ms),
        receipt_handle=held.receipt,
        **_key(held.key),
    )


def _blocked(key: WaitingKey) -> BlockedKeyResponse:
    return BlockedKeyResponse(partition=key.partition, offset=key.offset, waiting=key.waiting, **_key(key.key))


def _key(key: bytes | None) -> dict[str, str]:
    if key is None:
        return {}
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_base64": b2a_base64(key, newline=False).decode("ascii")}


def lease_routes(broker: "Facade") -> Routes:
    routes, known = LeaseRoutes(broker), (InvalidRequest, InvalidName, TopicNotFound, GroupNotFound)

    def operation(**more: Any) -> Operation:
        return Operation(tag="Queues", errors=known, **more)

    return {
        "/topics/{topic}/queues/{group}/leases": {
            "GET": operation(
                handler=routes.list,
                summary="Who holds which messages of a queue group until when, and which keys wait",
                query=LeasesQuery,
                response=LeasesResponse,
            )
        },
        "/topics/{topic}/queues/{group}/pause": {
            "POST": operation(
                handler=routes.pause,
                summary="Pause a queue group in a topic: it gets nothing until it is resumed, also after a restart",
                body=PauseRequest,
                example={"reason": "the database is moved"},
                response=QueueResponse,
            )
        },
        "/topics/{topic}/queues/{group}/resume": {
            "POST": operation(
                handler=routes.resume, summary="Resume a queue group in a topic", response=QueueResponse
            )
        },
    }
