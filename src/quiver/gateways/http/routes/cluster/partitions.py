"""Who has each partition, and how the partitions of a topic are spread over nodes."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.cluster.units import units_of
from quiver.model.errors import InvalidName, InvalidRequest, TopicNotFound
from quiver.model.numbers import shown, whole_number
from quiver.model.topic import Topic
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_PAGE = 10_000


class ClusterPartitionsQuery(msgspec.Struct, kw_only=True):
    topic: Annotated[str | None, Meta(description="Of this topic only.")] = None
    limit: Annotated[int, Meta(ge=1, le=_PAGE)] = _PAGE
    cursor: Annotated[str | None, Meta(description="The next_cursor of the page before.")] = None


class ClusterPartitionResponse(msgspec.Struct, kw_only=True):
    topic: str
    partition: int
    unit: Annotated[int, Meta(description="It moves with this unit, as all of the unit's partitions do.")]
    leader: Annotated[str | None, Meta(description="The node that does its work; null: nobody, for the moment.")]
    epoch: Annotated[int, Meta(description="Rises with every change of the leader.")]
    replicas: Annotated[list[str], Meta(description="Nodes, the preferred leader first.")]
    isr: Annotated[list[str], Meta(description="Of these: they have everything.")]


class ClusterPartitionsResponse(msgspec.Struct, kw_only=True):
    """By topic and number; next_cursor while there are more."""

    partitions: list[ClusterPartitionResponse]
    count: Annotated[int, Meta(description="How many there are on all pages.")]
    next_cursor: str | UnsetType = UNSET


class ScalingUnitResponse(msgspec.Struct, kw_only=True):
    unit: int
    partitions: Annotated[int, Meta(description="How many of the topic are in this unit.")]
    leader: str | None
    adding: Annotated[list[str], Meta(description="Nodes that get it.")]
    removing: Annotated[list[str], Meta(description="Nodes that it leaves.")]


class ScalingStatusResponse(msgspec.Struct, kw_only=True):
    topic: str
    partitions: int
    state: Annotated[
        Literal["stable", "moving"],
        Meta(description="moving: units with partitions of the topic are being reassigned."),
    ]
    moving_partitions: int
    units: list[ScalingUnitResponse]
    partitions_by_node: Annotated[dict[str, int], Meta(description="How many of its partitions each node leads.")]


class PartitionRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def partitions(self, request: Request) -> Response:
        query, broker = request.query(ClusterPartitionsQuery), self._broker
        topics = broker.topics() if query.topic is None else [broker.topic(query.topic)]
        units = {unit.unit: unit for unit in await units_of(broker)}
        response = ClusterPartitionsResponse(partitions=[], count=sum(each.config.partitions for each in topics))
        after = ("", -1) if query.cursor is None else _place(query.cursor)
        async for topic, partition, unit in paced(self._after(topics, after)):
            if len(response.partitions) == query.limit:
                last = response.partitions[-1]
                response.next_cursor = f"{last.topic}:{last.partition}"
                break
            found = units[unit]
            response.partitions.append(
                ClusterPartitionResponse(
                    topic=topic,
                    partition=partition,
                    unit=unit,
                    leader=found.leader,
                    epoch=found.epoch,
                    replicas=found.replicas,
                    isr=found.isr,
                )
            )
        return Response(response)

    def _after(self, topics: list[Topic], after: tuple[str, int]) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and unit of everything beyond a place."""
        name, number = after
        for topic in topics:
            if topic.name >= name:
                workers = self._broker.unit_workers(topic)
                for each in range(number + 1 if topic.name == name else 0, len(workers)):
                    yield topic.name, each, workers[each]

    async def scaling_status(self, request: Request) -> Response:
        topic = self._broker.topic(request.topic())
        counts = Counter(self._broker.unit_workers(topic))
        units = [unit for unit in await units_of(self._broker) if unit.unit in counts]
        moving = sum(counts[unit.unit] for unit in units if unit.is_moving)
        by_node: Counter[str] = Counter()
        for unit in units:
            if unit.leader is not None:
                by_node[unit.leader] += counts[unit.unit]
        return Response(
            ScalingStatusResponse(
                topic=topic.name,
                partitions=topic.config.partitions,
                state="moving" if moving else "stable",
                moving_partitions=moving,
                units=[
                    ScalingUnitResponse(
                        unit=unit.unit,
                        partitions=counts[unit.unit],
                        leader=unit.leader,
                        adding=unit.adding,
                        removing=unit.removing,
                    )
                    for unit in units
                ],
                partitions_by_node=dict(sorted(by_node.items())),
            )
        )


def _place(cursor: str) -> tuple[str, int]:
    topic, _, text = cursor.rpartition(":")
    number = whole_number(text)
    if not topic or number is None:
        raise InvalidRequest(problem=f"{shown(cursor)} is not a next_cursor of this route")
    return topic, number


def partition_routes(broker: "Facade") -> Routes:
    routes = PartitionRoutes(broker)
    return {
        "/cluster/partitions": {
            "GET": Operation(
                handler=routes.partitions,
                summary="The unit, leader and replicas of each partition",
                tag="Cluster",
                query=ClusterPartitionsQuery,
                response=ClusterPartitionsResponse,
                errors=(InvalidRequest, TopicNotFound),
            )
        },
        "/admin/topics/{topic}/scaling-status": {
            "GET": Operation(
                handler=routes.scaling_status,
                summary="How the partitions of a topic are spread over nodes, and whether they move",
                tag="Cluster",
                response=ScalingStatusResponse,
                errors=(InvalidName, TopicNotFound),
            )
        },
    }
