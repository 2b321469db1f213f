"""GET /api/v1/status: numbers for a dashboard, now and over the last minutes."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import queue_id
from quiver.gateways.queen.messages import shown_time
from quiver.gateways.queen.options import definition_of
from quiver.gateways.queen.partition_index import PartitionIndex
from quiver.gateways.queen.queue_numbers import QueueNumbers, queue_numbers
from quiver.gateways.queen.queues import QueenQueues
from quiver.gateways.queen.routes.operations import queen_operation, queue_of
from quiver.gateways.queen.status_series import INTERVALS, series
from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver.model.times import parse_time_ms
from quiver.model.topic import Topic
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class StatusQuery(msgspec.Struct, kw_only=True, rename={"from_": "from"}):
    queue: str | None = None
    namespace: str | None = None
    task: str | None = None
    from_: str | None = None
    to: str | None = None
    interval: Annotated[str, Meta(description="minute, hour or day.")] = "minute"

    def window(self) -> tuple[int | None, int | None]:
        if self.interval not in INTERVALS:
            raise InvalidRequest(problem=f"interval {self.interval[:80]!r} is not minute, hour or day")
        start = None if self.from_ is None else parse_time_ms(self.from_, "from")
        return start, None if self.to is None else parse_time_ms(self.to, "to")


class ThroughputPoint(msgspec.Struct, kw_only=True, rename="camel"):
    timestamp: str
    ingested: int
    processed: int
    failed: int
    ingested_per_second: float
    processed_per_second: float
    push_p99_ms: float
    lag_messages: int


class StatusMessages(msgspec.Struct, kw_only=True):
    total: int
    pending: int
    processing: int
    completed: int
    dead_letter: int = msgspec.field(name="deadLetter")


class QueueStatus(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    name: str
    namespace: str
    task: str
    created_at: str
    partitions: Annotated[int, Meta(description="Those with messages in the log.")]
    messages: StatusMessages
    size_bytes: int
    lag_seconds: float
    groups: list[dict[str, Any]]


class QueueStatusList(msgspec.Struct, kw_only=True):
    queues: list[QueueStatus]


class StatusResponse(msgspec.Struct, kw_only=True, rename="camel"):
    """Series go back as far as the broker remembers: some minutes, and not beyond its start."""

    throughput: list[ThroughputPoint]
    queues: int
    messages: StatusMessages
    leases: dict[str, int]
    dead_letter_queue: dict[str, int]
    workers: list[dict[str, Any]]
    errors: dict[str, str]


class AnalyticsResponse(msgspec.Struct, kw_only=True, rename="camel"):
    interval: str
    throughput: list[ThroughputPoint]
    queue_depths: dict[str, int]
    top_queues: list[QueueStatus]
    dead_letter_queue: dict[str, int]


class Refreshed(msgspec.Struct, kw_only=True):
    success: bool


class StatusRoutes:
    def __init__(self, broker: "Facade", queues: QueenQueues, index: PartitionIndex) -> None:
        self._broker = broker
        self._queues = queues
        self._index = index

    async def status(self, request: Request) -> Response:
        query = request.query(StatusQuery)
        throughput = await self._throughput(query)
        found = await self._all(query)
        together = _together(found)
        sample = await self._broker.sampler.latest()
        problems = (await self._broker.node.health()).problems
        worker = {"workerId": 0, "connections": sample.connections, "status": "unhealthy" if problems else "healthy"}
        return Response(
            StatusResponse(
                throughput=throughput,
                queues=len(found),
                messages=together,
                leases={"active": together.processing},
                dead_letter_queue={"total": sample.backlog.dead_letters},
                workers=[worker],
                errors=problems,
            )
        )

    async def refresh(self, request: Request) -> Response:
        return Response(Refreshed(success=True))

    async def queues(self, request: Request) -> Response:
        return Response(QueueStatusList(queues=await self._all(request.query(StatusQuery))))

    async def queue(self, request: Request) -> Response:
        topic = self._broker.topic(queue_of(request))
        return Response(_queue(topic, await queue_numbers(self._broker, topic, self._index)))

    async def analytics(self, request: Request) -> Response:
        query = request.query(StatusQuery)
        throughput = await self._throughput(query)
        found = await self._all(query)
        together = _together(found)
        sample = await self._broker.sampler.latest()
        return Response(
            AnalyticsResponse(
                interval=query.interval,
                throughput=throughput,
                queue_depths={"pending": together.pending, "processing": together.processing},
                top_queues=sorted(found, key=lambda each: -each.messages.total)[:10],
                dead_letter_queue={"total": sample.backlog.dead_letters},
            )
        )

    async def _throughput(self, query: StatusQuery) -> list[ThroughputPoint]:
        start_ms, end_ms = query.window()
        await self._broker.sampler.latest()
        columns = await self._broker.sampler.history()
        return [
            ThroughputPoint(
                timestamp=shown_time(each.time_ms),
                ingested=round(each.published),
                processed=round(each.acked),
                failed=round(each.failed),
                ingested_per_second=round(each.published / each.seconds, 3),
                processed_per_second=round(each.acked / each.seconds, 3),
                push_p99_ms=each.publish_p99_ms,
                lag_messages=round(each.lag_messages),
            )
            for each in series(columns, INTERVALS[query.interval], start_ms, end_ms)
        ]

    async def _all(self, query: StatusQuery) -> list[QueueStatus]:
        topics = self._queues.chosen(query.namespace, query.task)
        return [
            _queue(topic, numbers)
            async for topic in paced([each for each in topics if query.queue in (None, each.name)])
            if (numbers := await self._numbers(topic)) is not None
        ]

    async def _numbers(self, topic: Topic) -> QueueNumbers | None:
        """None if the queue was deleted meanwhile."""
        try:
            return await queue_numbers(self._broker, topic, self._index, is_complete=False)
        except TopicNotFound:
            return None


def _queue(topic: Topic, numbers: QueueNumbers) -> QueueStatus:
    definition = definition_of(topic)
    return QueueStatus(
        id=queue_id(topic.id),
        name=topic.name,
        namespace=definition.namespace,
        task=definition.task,
        created_at=shown_time(topic.created_at_ms),
        partitions=len(numbers.partitions),
        messages=StatusMessages(
            total=numbers.total,
            pending=numbers.pending,
            processing=numbers.processing,
            completed=numbers.completed,
            dead_letter=numbers.dead,
        ),
        size_bytes=numbers.size_bytes,
        lag_seconds=round(numbers.oldest_age_ms / 1000, 3),
        groups=[
            {"name": each.group, "pending": each.ready + each.retrying + each.blocked, "processing": each.leased}
            for each in numbers.depths
        ],
    )


def _together(queues: list[QueueStatus]) -> StatusMessages:
    return StatusMessages(
        total=sum(each.messages.total for each in queues),
        pending=sum(each.messages.pending for each in queues),
        processing=sum(each.messages.processing for each in queues),
        completed=sum(each.messages.completed for each in queues),
        dead_letter=sum(each.messages.dead_letter for each in queues),
    )


def status_routes(broker: "Facade", queues: QueenQueues, index: PartitionIndex) -> Routes:
    routes, root = StatusRoutes(broker, queues, index), "/api/v1/status"
    return {
        root: {"GET": queen_operation(routes.status, "Numbers for a dashboard", StatusResponse, query=StatusQuery)},
        f"{root}/queues": {
            "GET": queen_operation(routes.queues, "Numbers of queues", QueueStatusList, query=StatusQuery)
        },
        f"{root}/queues/{{queue}}": {
            "GET": queen_operation(routes.queue, "Numbers of a queue", QueueStatus, errors=(TopicNotFound,))
        },
        "/api/v1/analytics/system-metrics": {
            "GET": queen_operation(routes.status, "The same numbers", StatusResponse, query=StatusQuery)
        },
        "/api/v1/analytics/worker-metrics": {
            "GET": queen_operation(routes.status, "The same numbers", StatusResponse, query=StatusQuery)
        },
        "/api/v1/stats/refresh": {
            "POST": queen_operation(routes.refresh, "Nothing to do: numbers are always current", Refreshed)
        },
        f"{root}/analytics": {
            "GET": queen_operation(routes.analytics, "Series over time", AnalyticsResponse, query=StatusQuery)
        },
    }
