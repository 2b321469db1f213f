"""Numbers of traces."""

from collections.abc import Callable

from quiver.metrics.collector import Collection
from quiver.metrics.series import TRACE_EVENTS, TRACE_EVENTS_DROPPED
from quiver.model.trace.span import TraceStats


class TraceNumbers:
    def __init__(self, stats: Callable[[], TraceStats]) -> None:
        self._stats = stats

    async def collect(self, collection: Collection) -> None:
        stats = self._stats()
        collection.values.set(TRACE_EVENTS, stats.spans_written)
        collection.values.set(TRACE_EVENTS_DROPPED, stats.spans_dropped)
