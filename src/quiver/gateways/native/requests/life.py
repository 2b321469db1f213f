"""What requests about the life of a message, and about traces, ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.errors import InvalidRequest
from quiver.protocol.life_messages import (
    GetLife,
    GetTrace,
    GetTraceStats,
    Life,
    SearchTraces,
    TraceCounters,
    Traces,
)
from quiver.protocol.message import Message
from quiver.routing.facade import Facade

_MOST = 1_000


async def _life(broker: Facade, request: GetLife) -> Message:
    return Life(await broker.life.of(request.topic, request.partition, request.offset))


async def _search(broker: Facade, request: SearchTraces) -> Message:
    if request.limit < 1:
        raise InvalidRequest(problem="limit is 1 or more")
    return Traces(await broker.traces.search(request.filter, min(request.limit, _MOST)))


async def _get(broker: Facade, request: GetTrace) -> Message:
    return Traces([await broker.traces.get(request.trace_id)])


async def _stats(broker: Facade, request: GetTraceStats) -> Message:
    return TraceCounters(await broker.traces.stats())


LIFE_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    GetLife: _life,
    SearchTraces: _search,
    GetTrace: _get,
    GetTraceStats: _stats,
}
