"""What this worker shows to others."""

from quiver.broker.broker import Broker
from quiver.broker.health import HealthReport
from quiver.broker.node import WorkerStatus
from quiver.links.request import DONE, Handlers, Reply
from quiver.metrics.sampler import Sample, TopicRates
from quiver.model.trace.life import MessageLife
from quiver.model.trace.span import Trace
from quiver.routing.looks.requests import (
    CollectNumbers,
    FlushTraces,
    GetHealth,
    GetHistory,
    GetLife,
    GetSample,
    GetStatus,
    GetTopicRates,
    GetTrace,
    SearchTraces,
)
from quiver.telemetry.exposition import Collected


class LookHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        handlers.add(GetHealth, self._health)
        handlers.add(GetStatus, self._status)
        handlers.add(CollectNumbers, self._numbers)
        handlers.add(GetSample, self._sample)
        handlers.add(GetHistory, self._history)
        handlers.add(GetTopicRates, self._topic_rates)
        handlers.add(GetLife, self._life)
        handlers.add(FlushTraces, self._flush_traces)
        handlers.add(GetTrace, self._trace)
        handlers.add(SearchTraces, self._search_traces)

    async def _health(self, request: GetHealth, payload: memoryview) -> Reply[HealthReport]:
        return Reply(await self._broker.node.health())

    async def _status(self, request: GetStatus, payload: memoryview) -> Reply[WorkerStatus]:
        return Reply(await self._broker.node.worker())

    async def _numbers(self, request: CollectNumbers, payload: memoryview) -> Reply[tuple[int, Collected]]:
        return Reply(await own_numbers(self._broker))

    async def _sample(self, request: GetSample, payload: memoryview) -> Reply[Sample]:
        return Reply(await self._broker.sampler.latest())

    async def _history(self, request: GetHistory, payload: memoryview) -> Reply[dict[str, list[float]]]:
        return Reply(await self._broker.sampler.history())

    async def _topic_rates(self, request: GetTopicRates, payload: memoryview) -> Reply[dict[int, TopicRates]]:
        return Reply(dict(await self._broker.sampler.topic_rates()))

    async def _life(self, request: GetLife, payload: memoryview) -> Reply[MessageLife]:
        return Reply(await self._broker.life.of(request.topic, request.partition, request.offset))

    async def _flush_traces(self, request: FlushTraces, payload: memoryview) -> Reply[None]:
        await self._broker.traces.flush()
        return DONE

    async def _trace(self, request: GetTrace, payload: memoryview) -> Reply[Trace]:
        return Reply(await self._broker.traces.get(request.trace_id))

    async def _search_traces(self, request: SearchTraces, payload: memoryview) -> Reply[list[Trace]]:
        return Reply(await self._broker.traces.search(request.wanted, request.limit))


async def own_numbers(broker: Broker) -> tuple[int, Collected]:
    return broker.node.start_epoch, await broker.metrics.collect()
