# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""What happened to messages: `q.traces`."""

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.model.times import Duration, parse_duration_ms, parse_time_ms
from quiver.model.trace.life import MessageLife
from quiver.model.trace.span import Trace, TraceFilter, TraceStats, TraceStatus
from quiver.protocol import life_messages as messages


class Traces:
    def __init__(self, broker: ReconnectingConnection) -> None:
        self._broker = broker

    def message(self, topic: str, partition: int, offset: int) -> MessageLife:
        """The life of a message: every event in order, and where it is now for each group.

        Raises MessageNotFound, which says why there is no message.
        """
        answer = (self._broker.call(messages.GetLife(topic, partition, offset))).answer
        if not isinstance(answer, messages.Life):
            raise unexpected(answer)
        return answer.life

    def search(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        key: str | None = None,
        start: str | int | None = None,
        end: str | int | None = None,
        status: TraceStatus | None = None,
        min_duration: Duration | None = None,
        limit: int = 100,
    ) -> list[Trace]:
        """The newest traces that began between two times, took long enough, have the status, and have a span with
        every other field."""
        wanted = TraceFilter(
            topic=topic,
            partition=partition,
            group=group,
            key=key,
            start_ms=None if start is None else parse_time_ms(start, "start"),
            end_ms=None if end is None else parse_time_ms(end, "end"),
            status=status,
            min_duration_ms=None if min_duration is None else parse_duration_ms(min_duration),
        )
        return self._traces(messages.SearchTraces(wanted, limit))

    def get(self, trace_id: str) -> Trace:
        """A trace with all its spans. Raises TraceNotFound."""
        [trace] = self._traces(messages.GetTrace(trace_id))
        return trace

    def stats(self) -> TraceStats:
        """How many spans were written and dropped."""
        answer = (self._broker.call(messages.GetTraceStats())).answer
        if not isinstance(answer, messages.TraceCounters):
            raise unexpected(answer)
        return answer.stats

    def _traces(self, request: messages.SearchTraces | messages.GetTrace) -> list[Trace]:
        answer = (self._broker.call(request)).answer
        if not isinstance(answer, messages.Traces):
            raise unexpected(answer)
        return answer.traces

    def list(self, *, limit: int = 100) -> list[Trace]:
        """The newest traces of sampled messages."""
        return self.search(limit=limit)
