"""GET /reliability/stats and /priority/stats: counters of queues."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.errors import InvalidName, TopicNotFound
from quiver.model.names import check_name
from quiver.model.priority import NAMES
from quiver.model.times import format_time
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.queues.stats import PartitionPriorities, Settled
    from quiver.routing.facade import Facade

FromCriticalOn = "Five values, from critical to background."
Counts = Annotated[list[int], Meta(description=FromCriticalOn)]
Rates = Annotated[list[float], Meta(description="Messages per second in about the last minute. " + FromCriticalOn)]
Times = Annotated[list[str | None], Meta(description="null: not since the broker was started. " + FromCriticalOn)]


class SettledCounts(msgspec.Struct, kw_only=True):
    """Since the broker was started."""

    deliveries_total: int
    acks_total: int
    nacks_total: int
    rejects_total: int
    expired_leases_total: int
    visibility_extensions: int
    dlq_messages: Annotated[int, Meta(description="Given up, and moved to the dead-letter topic.")]
    lost_to_retention: int
    in_flight: Annotated[int, Meta(description="Leased now.")]


class TopicSettledCounts(SettledCounts, kw_only=True):
    groups: dict[str, SettledCounts]


class ReliabilityResponse(SettledCounts, kw_only=True):
    topics: dict[str, TopicSettledCounts]


class PartitionPrioritiesResponse(msgspec.Struct, kw_only=True):
    ready: Annotated[
        list[int],
        Meta(description="Over all queue groups; without any, what is stored. " + FromCriticalOn),
    ]
    in_flight: Counts
    enqueue_rate: Rates
    dequeue_rate: Rates
    last_served: Times


class TopicPrioritiesResponse(msgspec.Struct):
    partitions: dict[str, PartitionPrioritiesResponse]


class PriorityStatsResponse(msgspec.Struct, kw_only=True):
    messages_by_priority: Annotated[dict[str, int], Meta(description="Messages that are stored, in these topics.")]
    avg_wait_time_by_priority: Annotated[
        dict[str, float], Meta(description="Seconds from a message's arrival to its delivery.")
    ]
    topics: dict[str, TopicPrioritiesResponse]


class PriorityStatsQuery(msgspec.Struct, kw_only=True):
    topic: Annotated[str | None, Meta(description="Only this one.")] = None


class QueueStatsRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def reliability(self, request: Request) -> Response:
        found = await self._broker.queue_stats.reliability()
        topics = {
            name: TopicSettledCounts(
                **_counts(settled),
                groups={group: SettledCounts(**_counts(one)) async for group, one in paced(groups.items())},
            )
            async for name, (settled, groups) in paced(found.topics.items())
        }
        return Response(ReliabilityResponse(**_counts(found.total), topics=topics))

    async def priorities(self, request: Request) -> Response:
        topic = request.query(PriorityStatsQuery).topic
        found = await self._broker.queue_stats.priorities(None if topic is None else check_name(topic))
        waits = [round(wait_ms / 1000, 6) for wait_ms in found.average_wait_ms]
        return Response(
            PriorityStatsResponse(
                messages_by_priority=dict(zip(NAMES, found.stored, strict=True)),
                avg_wait_time_by_priority=dict(zip(NAMES, waits, strict=True)),
                topics={
                    name: TopicPrioritiesResponse(
                        {str(number): _partition(one) async for number, one in paced(partitions.items())}
                    )
                    async for name, partitions in paced(found.topics.items())
                },
            )
        )


def queue_stats_routes(broker: "Facade") -> Routes:
    routes = QueueStatsRoutes(broker)
    return {
        "/reliability/stats": {
            "GET": Operation(
                handler=routes.reliability,
                summary="What was acked, given back and given up, by topic and group",
                tag="Queues",
                response=ReliabilityResponse,
            )
        },
        "/priority/stats": {
            "GET": Operation(
                handler=routes.priorities,
                summary="How each priority is served",
                tag="Queues",
                query=PriorityStatsQuery,
                response=PriorityStatsResponse,
                errors=(InvalidName, TopicNotFound),
            )
        },
    }


def _counts(settled: "Settled") -> dict[str, int]:
    return {
        "deliveries_total": settled.delivered,
        "acks_total": settled.acks,
        "nacks_total": settled.nacks,
        "rejects_total": settled.rejects,
        "expired_leases_total": settled.expired_leases,
        "visibility_extensions": settled.extensions,
        "dlq_messages": settled.dead,
        "lost_to_retention": settled.lost,
        "in_flight": settled.in_flight,
    }


def _partition(one: "PartitionPriorities") -> PartitionPrioritiesResponse:
    return PartitionPrioritiesResponse(
        ready=list(one.ready),
        in_flight=list(one.in_flight),
        enqueue_rate=_rounded(one.enqueue_rate),
        dequeue_rate=_rounded(one.dequeue_rate),
        last_served=[format_time(at_ms) if at_ms else None for at_ms in one.last_served_ms],
    )


def _rounded(rates: Sequence[float]) -> list[float]:
    return [round(rate, 3) for rate in rates]
