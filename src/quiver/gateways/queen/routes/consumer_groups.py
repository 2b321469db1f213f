"""Consumer groups: how far behind they are, where they begin, and moving them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import partition_id
from quiver.gateways.queen.messages import shown_time
from quiver.gateways.queen.pops.subscriptions import Subscription, Subscriptions
from quiver.gateways.queen.queues import QueenQueues, group_name, partition_key, partition_name
from quiver.gateways.queen.routes.operations import queen_operation, queue_of
from quiver.gateways.queen.seek import PartitionSeek
from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest, TopicNotFound
from quiver.model.names import is_internal
from quiver.model.position import LATEST, Position
from quiver.model.times import parse_time_ms
from quiver.model.topic import Topic
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade
    from quiver.streams.admin import GroupDetails
    from quiver.streams.stats.lag import PartitionLag

_LAGGING_SECONDS = 300
_SHOWN_PARTITIONS = 1_000


class QueenGroup(msgspec.Struct, kw_only=True, rename="camel"):
    """A group in one queue."""

    name: str
    topics: list[str]
    queue_name: str
    members: Annotated[int, Meta(description="Connections that have popped.")]
    partitions_with_lag: Annotated[int, Meta(description="Partitions of the topic, not of the queue.")]
    total_lag: Annotated[int, Meta(description="Messages that are not acknowledged.")]
    max_time_lag: Annotated[float, Meta(description="Seconds since the oldest of them was pushed.")]
    state: Annotated[str, Meta(description="Stable, Lagging (more than 5 minutes behind), Dead (nobody pops).")]
    subscription_mode: str
    subscription_timestamp: str | None


class GroupPartition(msgspec.Struct, kw_only=True, rename="camel"):
    partition: str
    partition_id: str
    worker_id: str | None
    lease_active: bool
    lease_expires_at: str | None
    offset_lag: Annotated[int, Meta(description="Messages that wait behind those that are held.")]


class GroupQueue(msgspec.Struct, kw_only=True, rename="camel"):
    total_lag: int
    max_time_lag: float
    partitions: Annotated[list[GroupPartition], Meta(description="Those of which somebody holds messages.")]


class LaggingQuery(msgspec.Struct, kw_only=True, rename="camel"):
    min_lag_seconds: Annotated[float, Meta(ge=0)] = 60


class DeleteGroupQuery(msgspec.Struct, kw_only=True, rename="camel"):
    delete_metadata: Annotated[bool, Meta(description="Whether its subscriptions are forgotten too.")] = True


class SubscriptionRequest(msgspec.Struct, kw_only=True, rename="camel"):
    subscription_timestamp: Annotated[str | None, Meta(description="A time, or now.")] = None


class SeekRequest(msgspec.Struct, kw_only=True, rename="camel"):
    to_end: bool | None = None
    timestamp: str | None = None

    def position(self) -> Position:
        if self.to_end:
            return LATEST
        if self.timestamp is None:
            raise InvalidRequest(problem='the body needs "toEnd": true, or "timestamp"')
        return Position("time", parse_time_ms(self.timestamp, "timestamp"))


class GroupChanged(msgspec.Struct, kw_only=True, rename="camel"):
    success: bool
    consumer_group: str
    queue_name: str | None = None
    partitions_updated: int = 0


class ConsumerGroupRoutes:
    def __init__(
        self, broker: "Facade", queues: QueenQueues, subscriptions: Subscriptions, seek: PartitionSeek
    ) -> None:
        self._broker = broker
        self._queues = queues
        self._subscriptions = subscriptions
        self._seek = seek

    async def all(self, request: Request) -> Response:
        return Response(await self._all())

    async def lagging(self, request: Request) -> Response:
        least = request.query(LaggingQuery).min_lag_seconds
        return Response([each for each in await self._all() if each.total_lag and each.max_time_lag >= least])

    async def _all(self) -> list[QueenGroup]:
        groups = sorted(self._broker.groups.groups().values(), key=lambda group: group.name)
        found: list[QueenGroup] = []
        async for group in paced([each for each in groups if each.kind == "queue"]):
            if group.name in self._broker.groups.groups():
                details = await self._broker.group_admin.describe(group.name)
                for queue, parts in _by_queue(details).items():
                    found.append(await self._summary(details, queue, parts))
        return found

    async def _summary(self, details: "GroupDetails", queue: str, parts: "Sequence[PartitionLag]") -> QueenGroup:
        topic = self._queues.find(queue)
        subscription = None if topic is None else await self._subscriptions.of(details.id, topic)
        lag, seconds = _lag(parts)
        is_dead = lag and not details.members
        return QueenGroup(
            name=details.id,
            topics=[queue],
            queue_name=queue,
            members=len(details.members),
            partitions_with_lag=sum(1 for part in parts if _unsettled(part)),
            total_lag=lag,
            max_time_lag=seconds,
            state="Dead" if is_dead else "Lagging" if seconds > _LAGGING_SECONDS else "Stable",
            subscription_mode="all" if subscription is None else subscription.mode,
            subscription_timestamp=None if subscription is None else subscription.shown_time,
        )

    async def one(self, request: Request) -> Response:
        name = _group(request)
        details = await self._broker.group_admin.describe(name)
        found = {}
        for queue, parts in _by_queue(details).items():
            lag, seconds = _lag(parts)
            topic = self._queues.find(queue)
            held = [] if topic is None else await self._held(topic, name)
            found[queue] = GroupQueue(total_lag=lag, max_time_lag=seconds, partitions=held)
        return Response(found)

    async def _held(self, topic: Topic, group: str) -> list[GroupPartition]:
        page = await self._broker.queue_leases.page(topic.name, group, limit=_SHOWN_PARTITIONS)
        waiting = {each.key: each.waiting for each in page.blocked_keys}
        found: dict[bytes | None, GroupPartition] = {}
        for held in page.leases:
            if held.key not in found:
                found[held.key] = GroupPartition(
                    partition=partition_name(held.key),
                    partition_id=partition_id(topic.id, held.key),
                    worker_id=held.consumer,
                    lease_active=True,
                    lease_expires_at=shown_time(held.until_ms),
                    offset_lag=waiting.get(held.key or b"", 0),
                )
        return list(found.values())

    async def delete(self, request: Request) -> Response:
        """Deleting one that does not exist is fine."""
        name, query = _group(request), request.query(DeleteGroupQuery)
        if name in self._broker.groups.groups():
            await self._broker.group_admin.delete(name)
        if query.delete_metadata:
            await self._subscriptions.forget(name)
        return Response(GroupChanged(success=True, consumer_group=name))

    async def delete_in_queue(self, request: Request) -> Response:
        name, queue, query = _group(request), queue_of(request), request.query(DeleteGroupQuery)
        topic = self._queues.find(queue)
        if topic is not None:
            await self._broker.group_admin.leave_topic(name, queue)
            if query.delete_metadata:
                await self._subscriptions.forget(name, topic)
        return Response(GroupChanged(success=True, consumer_group=name, queue_name=queue))

    async def subscribe(self, request: Request) -> Response:
        name, wanted = _group(request), await request.body(SubscriptionRequest)
        if not wanted.subscription_timestamp:
            raise InvalidRequest(problem='the body needs "subscriptionTimestamp": a time, or now')
        now_ms = self._broker.clock.now_ms()
        is_now = wanted.subscription_timestamp == "now"
        from_ms = now_ms if is_now else parse_time_ms(wanted.subscription_timestamp, "subscriptionTimestamp")
        await self._subscriptions.set(name, Subscription(mode="timestamp", from_ms=from_ms))
        return Response(GroupChanged(success=True, consumer_group=name))

    async def seek(self, request: Request) -> Response:
        name, queue, wanted = _group(request), queue_of(request), await request.body(SeekRequest)
        changes = await self._broker.offset_reset.reset(name, queue, wanted.position(), dry_run=False)
        return Response(
            GroupChanged(success=True, consumer_group=name, queue_name=queue, partitions_updated=len(changes))
        )

    async def seek_partition(self, request: Request) -> Response:
        name, queue, wanted = _group(request), queue_of(request), await request.body(SeekRequest)
        key = partition_key(unquote(request.params["partition_name"]))
        topic = self._broker.topic(queue)
        await self._seek.move(topic, name, key, wanted.position())
        return Response(GroupChanged(success=True, consumer_group=name, queue_name=queue, partitions_updated=1))


def _group(request: Request) -> str:
    return group_name(unquote(request.params["group"]))


def _by_queue(details: "GroupDetails") -> "dict[str, list[PartitionLag]]":
    found: dict[str, list[PartitionLag]] = {}
    for part in details.partitions:
        if is_internal(part.topic):
            continue
        found.setdefault(part.topic, []).append(part)
    return found


def _unsettled(part: "PartitionLag") -> int:
    return part.messages + part.leased + part.retrying


def _lag(parts: "Sequence[PartitionLag]") -> tuple[int, float]:
    """Messages that are not settled, and the age of the oldest in seconds."""
    lag = sum(_unsettled(part) for part in parts)
    return lag, round(max((part.time_ms for part in parts), default=0) / 1000, 3) if lag else 0.0


def consumer_group_routes(
    broker: "Facade", queues: QueenQueues, subscriptions: Subscriptions, seek: PartitionSeek
) -> Routes:
    routes = ConsumerGroupRoutes(broker, queues, subscriptions, seek)
    root, known = "/api/v1/consumer-groups", (GroupNotFound, TopicNotFound, GroupNotEmpty)
    moved: dict[str, Any] = {"body": SeekRequest, "example": {"toEnd": True}, "errors": known}
    return {
        root: {"GET": queen_operation(routes.all, "List consumer groups, by queue", list[QueenGroup])},
        f"{root}/lagging": {
            "GET": queen_operation(
                routes.lagging, "List groups that are behind", list[QueenGroup], query=LaggingQuery
            )
        },
        f"{root}/{{group}}": {
            "GET": queen_operation(
                routes.one, "What a group holds, by queue", dict[str, GroupQueue], errors=(GroupNotFound,)
            ),
            "DELETE": queen_operation(
                routes.delete, "Delete a group", GroupChanged, query=DeleteGroupQuery, errors=(GroupNotEmpty,)
            ),
        },
        f"{root}/{{group}}/queues/{{queue}}": {
            "DELETE": queen_operation(
                routes.delete_in_queue,
                "Forget where a group is in a queue: it begins again",
                GroupChanged,
                query=DeleteGroupQuery,
                errors=(GroupNotEmpty,),
            )
        },
        f"{root}/{{group}}/subscription": {
            "POST": queen_operation(
                routes.subscribe,
                "Where the group begins in queues that are new to it",
                GroupChanged,
                body=SubscriptionRequest,
                example={"subscriptionTimestamp": "2026-01-31T12:00:00Z"},
            )
        },
        f"{root}/{{group}}/queues/{{queue}}/seek": {
            "POST": queen_operation(routes.seek, "Move a group in a queue", GroupChanged, **moved)
        },
        f"{root}/{{group}}/queues/{{queue}}/partitions/{{partition_name}}/seek": {
            "POST": queen_operation(routes.seek_partition, "Move a group in one partition", GroupChanged, **moved)
        },
    }
