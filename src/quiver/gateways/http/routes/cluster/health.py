"""Whether all nodes are there, and all units have a leader and all of their replicas."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.cluster.units import units_of
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

ClusterState = Literal["ok", "degraded", "down"]


class ClusterHealthResponse(msgspec.Struct, kw_only=True):
    status: Annotated[
        ClusterState,
        Meta(description="down: some partitions take no writes; degraded: nodes or replicas are missing."),
    ]
    node: Annotated[str, Meta(description="The one that was asked.")]
    controller: Annotated[str | None, Meta(description="The node that decides; null: nobody, for the moment.")]
    nodes: int
    nodes_alive: int
    units: int
    units_without_leader: list[int]
    units_refusing: Annotated[list[int], Meta(description="Fewer replicas are in sync than an ack needs.")]
    units_behind: Annotated[list[int], Meta(description="Not all of their replicas are in sync.")]
    units_moving: Annotated[list[int], Meta(description="They are being reassigned.")]
    partitions: int
    partitions_offline: Annotated[int, Meta(description="In units that take no writes.")]
    partitions_behind: Annotated[int, Meta(description="In units with replicas that are not in sync.")]
    problems: Annotated[dict[str, str], Meta(description="Of the asked node: everything that takes no writes.")]
    warnings: dict[str, str]


class ClusterHealthRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def health(self, request: Request) -> Response:
        broker = self._broker
        units, (problems, warnings) = await asyncio.gather(units_of(broker), broker.node.health())
        members = await broker.node.nodes()
        without = [unit.unit for unit in units if unit.leader is None]
        refusing = [unit.unit for unit in units if unit.is_refusing]
        behind = [unit.unit for unit in units if unit.is_behind]
        nodes = [] if members is None else members.nodes
        alive = len([each for each in nodes if each.state != "dead"]) if nodes else 1
        partitions: Counter[int] = Counter()
        async for topic in paced(broker.topics()):
            partitions.update(broker.unit_workers(topic))
        status: ClusterState = "ok"
        if without or refusing or problems:
            status = "down"
        elif behind or alive < len(nodes):
            status = "degraded"
        controllers = [each.node for each in nodes if each.is_controller] if nodes else [broker.node_id]
        return Response(
            ClusterHealthResponse(
                status=status,
                node=broker.node_id if members is None else members.node,
                controller=controllers[0] if controllers else None,
                nodes=len(nodes) or 1,
                nodes_alive=alive,
                units=len(units),
                units_without_leader=without,
                units_refusing=refusing,
                units_behind=behind,
                units_moving=[unit.unit for unit in units if unit.is_moving],
                partitions=partitions.total(),
                partitions_offline=sum(partitions[unit] for unit in {*without, *refusing}),
                partitions_behind=sum(partitions[unit] for unit in behind),
                problems=problems,
                warnings=warnings,
            )
        )


def cluster_health_routes(broker: "Facade") -> Routes:
    operation = Operation(
        handler=ClusterHealthRoutes(broker).health,
        summary="Whether all nodes are there, and all units have a leader and their replicas",
        tag="Cluster",
        response=ClusterHealthResponse,
    )
    return {"/cluster/health": {"GET": operation}}
