"""Requests and responses about the life of a message, and about traces."""

from quiver.model.trace.life import MessageLife
from quiver.model.trace.span import Trace, TraceFilter, TraceStats
from quiver.protocol.message import Message


class GetLife(Message, tag=95, frozen=True):
    """What happened to a message. Response: Life."""

    topic: str
    partition: int
    offset: int


class SearchTraces(Message, tag=96, frozen=True):
    """The newest traces that fit. Response: Traces."""

    filter: TraceFilter
    limit: int = 100


class GetTrace(Message, tag=97, frozen=True):
    """Response: Traces, with this one."""

    trace_id: str


class GetTraceStats(Message, tag=98, frozen=True):
    """Response: TraceCounters."""


LifeRequest = GetLife | SearchTraces | GetTrace | GetTraceStats


class Life(Message, tag=195, frozen=True):
    life: MessageLife


class Traces(Message, tag=196, frozen=True):
    traces: list[Trace]


class TraceCounters(Message, tag=197, frozen=True):
    stats: TraceStats


LifeResponse = Life | Traces | TraceCounters
