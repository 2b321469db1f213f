"""The broker at a glance: what it does now, what waits in it, what is wrong; once, or a line per second."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.media import NDJSON
from quiver.gateways.http.node import NodeInfo
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.node.health import Readiness
from quiver.metrics.sampler import Sample
from quiver.model.times import format_time
from quiver.system.pace import Turnstile
from quiver.telemetry.machine import Disk

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_SHOWN_PROBLEMS = 20


class RatesResponse(msgspec.Struct, kw_only=True):
    """Per second, over about the last second."""

    published_messages: float
    published_bytes: float
    read_messages: float
    read_bytes: float
    delivered: Annotated[float, Meta(description="Messages leased to consumers of queues; also in read_messages.")]
    acked: float
    nacked: float
    dead: Annotated[float, Meta(description="Messages that became dead letters.")]


class DiskResponse(msgspec.Struct, kw_only=True):
    free_bytes: Annotated[int, Meta(description="0 with total_bytes 0: no disk is watched.")]
    total_bytes: int
    log_bytes: Annotated[int, Meta(description="What the messages of all topics take.")]


class TopTopicResponse(msgspec.Struct, kw_only=True):
    topic: str
    published_per_second: float
    read_per_second: float
    size_bytes: int


class OverviewResponse(msgspec.Struct, kw_only=True):
    time: str
    node_id: str
    version: str
    uptime_seconds: float
    is_ready: bool
    problems: Annotated[list[str], Meta(description="What is wrong, a sentence each.")]
    topics: int
    groups: int
    connections: Annotated[int, Meta(description="Open now, over HTTP and the native port.")]
    rates: RatesResponse
    publish_p99_ms: Annotated[float, Meta(description="99 % of the requests of the last second; 0 without any.")]
    disk: DiskResponse
    lag_messages: Annotated[int, Meta(description="What groups have not read, over all groups.")]
    dead_letters: int
    loop_lag_ms: Annotated[float, Meta(description="The longest delay of the event loop in the last ten seconds.")]
    memory_bytes: int
    open_transactions: int
    delayed: Annotated[int, Meta(description="Messages that enter their topic later.")]
    top_topics: Annotated[list[TopTopicResponse], Meta(description="The busiest first, at most ten.")]
    history: Annotated[
        dict[str, list[float]] | UnsetType,
        Meta(
            description="The last 15 minutes, a list per number: `seconds` has the time of each point, in epoch "
            "seconds. Only in /overview and in the first line of /overview/stream."
        ),
    ] = UNSET


class OverviewRoutes:
    """A line of the stream is made once, however many read it. A client that reads slowly misses lines: each gets the
    newest when it has taken the one before."""

    def __init__(self, broker: "Facade", node: NodeInfo, readiness: Readiness) -> None:
        self._broker = broker
        self._node = node
        self._readiness = readiness
        self._started = broker.clock.monotonic()
        self._making = asyncio.Lock()
        self._line_number, self._line = -1, b""
        self._turnstile = Turnstile()

    async def overview(self, request: Request) -> Response:
        return Response(await self._overview(await self._broker.sampler.latest(), with_history=True))

    async def stream(self, request: Request) -> StreamedResponse:
        request.waits = True
        return StreamedResponse(self._lines(), NDJSON, is_live=True)

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        sample: Sample | None = await self._broker.sampler.latest()
        assert sample is not None
        yield NDJSON.encode(await self._overview(sample, with_history=True))
        while (sample := await self._broker.sampler.following(sample.number)) is not None:
            await self._turnstile.enter()
            yield await self._line_of(sample)

    async def _line_of(self, sample: Sample) -> bytes:
        async with self._making:
            if self._line_number != sample.number:
                self._line = NDJSON.encode(await self._overview(sample))
                self._line_number = sample.number
            return self._line

    async def _overview(self, sample: Sample, *, with_history: bool = False) -> OverviewResponse:
        checks = await self._readiness.checks()
        memory = await asyncio.to_thread(self._readiness.machine.memory)
        disk = await asyncio.to_thread(self._readiness.machine.disk) or Disk(0, 0)
        failed = [f"{name}: {check.message}" for name, check in checks.items() if check.status == "fail"]
        problems = [f"{name}: {why}" for name, why in (await self._broker.node.health()).problems.items()]
        backlog = sample.backlog
        return OverviewResponse(
            time=format_time(sample.time_ms),
            node_id=self._broker.node_id,
            version=self._node.version,
            uptime_seconds=round(self._broker.clock.monotonic() - self._started, 3),
            is_ready=not failed,
            problems=[*(failed if not problems else failed[:1]), *problems][:_SHOWN_PROBLEMS],
            topics=sample.topics,
            groups=backlog.groups,
            connections=sample.connections,
            rates=RatesResponse(**sample.rates._asdict()),
            publish_p99_ms=sample.publish_p99_ms,
            disk=DiskResponse(free_bytes=disk.free_bytes, total_bytes=disk.total_bytes, log_bytes=backlog.log_bytes),
            lag_messages=backlog.lag_messages,
            dead_letters=backlog.dead_letters,
            loop_lag_ms=round(self._readiness.lag.worst_ms, 3),
            memory_bytes=memory.used_bytes,
            open_transactions=backlog.open_transactions,
            delayed=backlog.delayed,
            top_topics=[
                TopTopicResponse(topic=topic, size_bytes=size_bytes, **rates._asdict())
                for topic, rates, size_bytes in sample.top_topics
            ],
            history=await self._broker.sampler.history() if with_history else UNSET,
        )


def overview_routes(broker: "Facade", node: NodeInfo, readiness: Readiness) -> Routes:
    routes = OverviewRoutes(broker, node, readiness)
    return {
        "/overview": {
            "GET": Operation(
                handler=routes.overview, summary="The broker at a glance", tag="Node", response=OverviewResponse
            )
        },
        "/overview/stream": {
            "GET": Operation(
                handler=routes.stream,
                summary="The broker at a glance, a line per second until you close the connection",
                tag="Node",
                response=OverviewResponse,
                form="application/x-ndjson",
            )
        },
    }
