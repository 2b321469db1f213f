"""Queues, namespaces and tasks, with how many messages they have."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import partition_id, queue_id
from quiver.gateways.queen.messages import shown_time
from quiver.gateways.queen.options import QueueOptions, definition_of
from quiver.gateways.queen.partition_index import PartitionIndex
from quiver.gateways.queen.queue_numbers import QueueNumbers, queue_numbers
from quiver.gateways.queen.queues import QueenQueues, checked_queue, partition_key, partition_name
from quiver.gateways.queen.routes.operations import queen_operation, queue_of
from quiver.gateways.queen.seek import PartitionSeek
from quiver.model.errors import GroupNotEmpty, TopicNotFound
from quiver.model.position import LATEST
from quiver.model.topic import Topic
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_COUNTED_IN = "Those with messages in the log."
_MOST_LISTED = 10_000


class QueenMessageCounts(msgspec.Struct, kw_only=True):
    total: int
    pending: Annotated[
        int, Meta(description="Of queue mode if it is used, else of the group that is furthest behind.")
    ]
    processing: int
    completed: int


class QueenQueue(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    name: str
    namespace: str
    task: str
    created_at: str
    partitions: Annotated[int, Meta(description=_COUNTED_IN)]
    messages: QueenMessageCounts


class QueenQueueList(msgspec.Struct, kw_only=True):
    queues: list[QueenQueue]


class QueenPartition(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    name: str
    queue: str
    messages: dict[str, int]


class QueenQueueDetails(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    name: str
    namespace: str
    task: str
    created_at: str
    options: QueueOptions
    partitions: Annotated[
        list[QueenPartition], Meta(description="Those with messages in the log, by name; the first 10,000.")
    ]
    totals: QueenMessageCounts


class QueenLabelCount(msgspec.Struct, kw_only=True):
    """A namespace or a task."""

    namespace: str | None = None
    task: str | None = None
    queues: int
    partitions: int
    messages: QueenMessageCounts


class NamespaceList(msgspec.Struct, kw_only=True):
    namespaces: list[QueenLabelCount]


class TaskList(msgspec.Struct, kw_only=True):
    tasks: list[QueenLabelCount]


class ResourceOverview(msgspec.Struct, kw_only=True):
    queues: int
    partitions: int
    namespaces: int
    tasks: int
    messages: QueenMessageCounts
    timestamp: str


class ResourcesQuery(msgspec.Struct, kw_only=True):
    namespace: str | None = None
    task: str | None = None


class PartitionsQuery(msgspec.Struct, kw_only=True):
    queue: str | None = None
    namespace: str | None = None
    task: str | None = None
    limit: Annotated[int, Meta(ge=1, le=_MOST_LISTED)] = 100
    offset: Annotated[int, Meta(ge=0)] = 0


class QueenPartitionList(msgspec.Struct, kw_only=True):
    partitions: list[QueenPartition]
    total: int


class QueueDepthResponse(msgspec.Struct, kw_only=True):
    queue: str
    depth: Annotated[int, Meta(description="Messages that are not acknowledged: pending and processing.")]
    pending: int
    processing: int


class ClearQuery(msgspec.Struct, kw_only=True):
    partition: Annotated[str | None, Meta(description="Only this one.")] = None


class QueueCleared(msgspec.Struct, kw_only=True):
    success: bool
    queue: str
    partition: str | None


class QueueDeleted(msgspec.Struct, kw_only=True):
    deleted: bool
    queue: str
    existed: bool


class ResourceRoutes:
    def __init__(self, broker: "Facade", queues: QueenQueues, index: PartitionIndex) -> None:
        self._broker = broker
        self._queues = queues
        self._index = index

    async def overview(self, request: Request) -> Response:
        found = await self._all(ResourcesQuery())
        return Response(
            ResourceOverview(
                queues=len(found),
                partitions=sum(each.partitions for each in found),
                namespaces=len({each.namespace for each in found} - {""}),
                tasks=len({each.task for each in found} - {""}),
                messages=_together([each.messages for each in found]),
                timestamp=shown_time(self._broker.clock.now_ms()),
            )
        )

    async def queues(self, request: Request) -> Response:
        return Response(QueenQueueList(queues=await self._all(request.query(ResourcesQuery))))

    async def namespaces(self, request: Request) -> Response:
        found = _by_label(await self._all(ResourcesQuery()), "namespace")
        return Response(NamespaceList(namespaces=[QueenLabelCount(namespace=name, **more) for name, more in found]))

    async def tasks(self, request: Request) -> Response:
        found = _by_label(await self._all(ResourcesQuery()), "task")
        return Response(TaskList(tasks=[QueenLabelCount(task=name, **more) for name, more in found]))

    async def _all(self, query: ResourcesQuery) -> list[QueenQueue]:
        return [
            _queue(topic, counted)
            async for topic in paced(self._queues.chosen(query.namespace, query.task))
            if (counted := await self._numbers(topic)) is not None
        ]

    async def _numbers(self, topic: Topic, *, is_complete: bool = False) -> QueueNumbers | None:
        """None if the queue was deleted meanwhile."""
        try:
            return await queue_numbers(self._broker, topic, self._index, is_complete=is_complete)
        except TopicNotFound:
            return None

    async def one(self, request: Request) -> Response:
        topic = self._broker.topic(queue_of(request))
        numbers = await queue_numbers(self._broker, topic, self._index)
        definition = definition_of(topic)
        return Response(
            QueenQueueDetails(
                id=queue_id(topic.id),
                name=topic.name,
                namespace=definition.namespace,
                task=definition.task,
                created_at=shown_time(topic.created_at_ms),
                options=definition.options,
                partitions=_partitions(topic, numbers)[:_MOST_LISTED],
                totals=_counts(numbers),
            )
        )

    async def partitions(self, request: Request) -> Response:
        """By queue and name."""
        query = request.query(PartitionsQuery)
        if query.queue is None:
            topics = self._queues.chosen(query.namespace, query.task)
        else:
            topics = [self._broker.topic(checked_queue(query.queue))]
        found: list[QueenPartition] = []
        async for topic in paced(topics):
            numbers = await self._numbers(topic, is_complete=True)
            found += [] if numbers is None else _partitions(topic, numbers)
        page = found[query.offset : query.offset + query.limit]
        return Response(QueenPartitionList(partitions=page, total=len(found)))

    async def depth(self, request: Request) -> Response:
        topic = self._broker.topic(queue_of(request))
        numbers = await queue_numbers(self._broker, topic, self._index)
        return Response(
            QueueDepthResponse(
                queue=topic.name,
                depth=numbers.pending + numbers.processing,
                pending=numbers.pending,
                processing=numbers.processing,
            )
        )

    async def clear(self, request: Request) -> Response:
        """All messages are removed; of one partition, they are settled for every group."""
        topic = self._broker.topic(queue_of(request))
        partition = request.query(ClearQuery).partition
        if partition is None:
            await self._broker.purge_topic(topic.name)
        else:
            key, seek = partition_key(partition), PartitionSeek(self._broker)
            for depth in await self._broker.queue_depths.of_all(topic.name):
                await seek.move(topic, depth.group, key, LATEST)
        return Response(QueueCleared(success=True, queue=topic.name, partition=partition))

    async def delete(self, request: Request) -> Response:
        """Also one that does not exist, so that it may be repeated."""
        name = queue_of(request)
        try:
            await self._broker.delete_topic(name)
        except TopicNotFound:
            return Response(QueueDeleted(deleted=True, queue=name, existed=False))
        return Response(QueueDeleted(deleted=True, queue=name, existed=True))


def _queue(topic: Topic, numbers: QueueNumbers) -> QueenQueue:
    definition = definition_of(topic)
    return QueenQueue(
        id=queue_id(topic.id),
        name=topic.name,
        namespace=definition.namespace,
        task=definition.task,
        created_at=shown_time(topic.created_at_ms),
        partitions=len(numbers.partitions),
        messages=_counts(numbers),
    )


def _counts(numbers: QueueNumbers) -> QueenMessageCounts:
    return QueenMessageCounts(
        total=numbers.total,
        pending=numbers.pending,
        processing=numbers.processing,
        completed=numbers.completed,
    )


def _together(counts: list[QueenMessageCounts]) -> QueenMessageCounts:
    return QueenMessageCounts(
        total=sum(each.total for each in counts),
        pending=sum(each.pending for each in counts),
        processing=sum(each.processing for each in counts),
        completed=sum(each.completed for each in counts),
    )


def _by_label(queues: list[QueenQueue], label: str) -> list[tuple[str, dict[str, Any]]]:
    found: dict[str, list[QueenQueue]] = {}
    for queue in queues:
        if name := getattr(queue, label):
            found.setdefault(name, []).append(queue)
    return [
        (
            name,
            {
                "queues": len(held),
                "partitions": sum(each.partitions for each in held),
                "messages": _together([each.messages for each in held]),
            },
        )
        for name, held in sorted(found.items())
    ]


def _partitions(topic: Topic, numbers: QueueNumbers) -> list[QueenPartition]:
    return [
        QueenPartition(
            id=partition_id(topic.id, key), name=partition_name(key), queue=topic.name, messages={"total": count}
        )
        for key, count in sorted(numbers.partitions.items())
    ]


def resource_routes(broker: "Facade", queues: QueenQueues, index: PartitionIndex) -> Routes:
    routes, root = ResourceRoutes(broker, queues, index), "/api/v1/resources"
    return {
        f"{root}/overview": {"GET": queen_operation(routes.overview, "How much there is", ResourceOverview)},
        f"{root}/namespaces": {"GET": queen_operation(routes.namespaces, "List namespaces", NamespaceList)},
        f"{root}/tasks": {"GET": queen_operation(routes.tasks, "List tasks", TaskList)},
        f"{root}/queues": {
            "GET": queen_operation(routes.queues, "List queues", QueenQueueList, query=ResourcesQuery)
        },
        f"{root}/partitions": {
            "GET": queen_operation(
                routes.partitions,
                "List partitions",
                QueenPartitionList,
                query=PartitionsQuery,
                errors=(TopicNotFound,),
            )
        },
        "/api/v1/queues/{queue}/clear": {
            "DELETE": queen_operation(
                routes.clear,
                "Remove the messages of a queue, or settle those of a partition",
                QueueCleared,
                query=ClearQuery,
                errors=(TopicNotFound, GroupNotEmpty),
            )
        },
        f"{root}/queues/{{queue}}/depth": {
            "GET": queen_operation(
                routes.depth, "How many messages wait", QueueDepthResponse, errors=(TopicNotFound,)
            )
        },
        f"{root}/queues/{{queue}}": {
            "GET": queen_operation(routes.one, "Describe a queue", QueenQueueDetails, errors=(TopicNotFound,)),
            "DELETE": queen_operation(routes.delete, "Delete a queue and its messages", QueueDeleted),
        },
    }
