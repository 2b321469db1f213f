"""Numbers of traces."""

from quiver.metrics.collector import Collection
from quiver.metrics.series import TRACE_EVENTS, TRACE_EVENTS_DROPPED
from quiver.traces.collector import TraceCollector


class TraceNumbers:
    def __init__(self, traces: TraceCollector) -> None:
        self._traces = traces

    async def collect(self, collection: Collection) -> None:
        stats = self._traces.stats()
        collection.values.set(TRACE_EVENTS, stats.spans_written)
        collection.values.set(TRACE_EVENTS_DROPPED, stats.spans_dropped)
