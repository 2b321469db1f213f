"""GET /topics/{topic}/queues: how much each queue group has left to do."""

from binascii import b2a_base64
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.groups.groups import group_of
from quiver.model.errors import GroupNotFound, InvalidName, TopicNotFound
from quiver.model.priority import NAMES
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.queues.depth import QueueDepth
    from quiver.routing.facade import Facade


class BlockedKey(msgspec.Struct, kw_only=True):
    key: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    waiting: Annotated[int, Meta(description="Messages after the one that is leased or waits for a retry.")]


class QueueResponse(msgspec.Struct, kw_only=True):
    group: str
    topic: str
    ready: Annotated[int, Meta(description="Messages that can be received now.")]
    ready_by_priority: dict[str, int]
    leased: Annotated[int, Meta(description="With consumers now.")]
    retrying: Annotated[int, Meta(description="Given back, and not due yet.")]
    blocked: Annotated[int, Meta(description="Wait for an earlier message of their key.")]
    delayed: Annotated[int, Meta(description="Published with a delay, and not due yet.")]
    dead: Annotated[int, Meta(description="Moved to the dead-letter topic since the broker was started.")]
    oldest_age: Annotated[float, Meta(description="Of the oldest message that is not settled, in seconds.")]
    blocked_keys: list[BlockedKey]
    consumers: Annotated[dict[str, int], Meta(description="How many messages each holds.")]
    paused_since: Annotated[str | None, Meta(description="Set while the group gets nothing from the topic.")]
    pause_reason: str | None


class QueuesResponse(msgspec.Struct):
    topic: str
    queues: list[QueueResponse]


class QueueRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        topic = request.topic()
        depths = await self._broker.queue_depths.of_all(topic)
        return Response(QueuesResponse(topic, [queue_response(topic, depth) for depth in depths]))

    async def describe(self, request: Request) -> Response:
        topic, group = request.topic(), group_of(request)
        return Response(queue_response(topic, await self._broker.queue_depths.of(topic, group)))


def queue_routes(broker: "Facade") -> Routes:
    routes, known = QueueRoutes(broker), (InvalidName, TopicNotFound)
    return {
        "/topics/{topic}/queues": {
            "GET": Operation(
                handler=routes.list,
                summary="Depth and age of a topic's queue groups",
                tag="Queues",
                response=QueuesResponse,
                errors=known,
            )
        },
        "/topics/{topic}/queues/{group}": {
            "GET": Operation(
                handler=routes.describe,
                summary="Depth and age of one queue group",
                tag="Queues",
                response=QueueResponse,
                errors=(*known, GroupNotFound),
            )
        },
    }


def queue_response(topic: str, depth: "QueueDepth") -> QueueResponse:
    return QueueResponse(
        group=depth.group,
        topic=topic,
        ready=depth.ready,
        ready_by_priority=dict(zip(NAMES, depth.ready_by_level, strict=True)),
        leased=depth.leased,
        retrying=depth.retrying,
        blocked=depth.blocked,
        delayed=depth.delayed,
        dead=depth.dead,
        oldest_age=depth.oldest_age_ms / 1000,
        blocked_keys=[_blocked(key, waiting) for key, waiting in depth.blocked_keys],
        consumers=depth.consumers,
        paused_since=None if depth.paused_since_ms is None else format_time(depth.paused_since_ms),
        pause_reason=depth.pause_reason or None,
    )


def _blocked(key: bytes, waiting: int) -> BlockedKey:
    try:
        return BlockedKey(key=key.decode(), waiting=waiting)
    except UnicodeDecodeError:
        return BlockedKey(key_base64=b2a_base64(key, newline=False).decode("ascii"), waiting=waiting)
