"""Which code runs here, and how much is stored."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class VersionResponse(msgspec.Struct, kw_only=True):
    version: str
    git_commit: str
    build_time: str


class TopicStatsResponse(msgspec.Struct, kw_only=True):
    messages: int
    size_bytes: int
    partitions: int


class StatsResponse(msgspec.Struct, kw_only=True):
    node_id: str
    started_at: str
    uptime: Annotated[float, Meta(description="Seconds.")]
    topics: Annotated[int, Meta(description="How many there are.")]
    total_messages: int
    total_size_bytes: int
    topic_stats: dict[str, TopicStatsResponse]


class NodeRoutes:
    def __init__(self, broker: "Facade", node: NodeInfo) -> None:
        self._broker = broker
        self._node = node

    async def version(self, request: Request) -> Response:
        node = self._node
        return Response(VersionResponse(version=node.version, git_commit=node.git_commit, build_time=node.build_time))

    async def stats(self, request: Request) -> Response:
        stats = await self._broker.stats()
        topics = {
            details.topic.name: TopicStatsResponse(
                messages=details.message_count,
                size_bytes=details.size_bytes,
                partitions=len(details.partitions),
            )
            for details in stats.topics
        }
        return Response(
            StatsResponse(
                node_id=self._broker.node_id,
                started_at=format_time(self._node.started),
                uptime=round(stats.uptime_seconds, 3),
                topics=len(topics),
                total_messages=sum(topic.messages for topic in topics.values()),
                total_size_bytes=stats.size_bytes,
                topic_stats=topics,
            )
        )


def node_routes(broker: "Facade", node: NodeInfo) -> Routes:
    routes = NodeRoutes(broker, node)
    return {
        "/version": {
            "GET": Operation(
                handler=routes.version, summary="The version that runs here", tag="Node", response=VersionResponse
            )
        },
        "/stats": {
            "GET": Operation(
                handler=routes.stats, summary="How much the broker stores", tag="Node", response=StatsResponse
            )
        },
    }
