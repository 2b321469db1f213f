"""What workers ask of each other to show it. Nothing is changed."""

from quiver.broker.health import HealthReport
from quiver.broker.node import WorkerStatus
from quiver.links.request import PeerRequest
from quiver.metrics.sampler import Sample, TopicRates
from quiver.model.trace.life import MessageLife
from quiver.model.trace.span import Trace, TraceFilter
from quiver.telemetry.exposition import Collected


class GetHealth(PeerRequest[HealthReport], frozen=True):
    capability, method = "looks", "health"


class GetStatus(PeerRequest[WorkerStatus], frozen=True):
    capability, method = "looks", "status"


class CollectNumbers(PeerRequest[tuple[int, Collected]], frozen=True):
    """The start epoch of the worker, and its numbers since then."""

    capability, method = "looks", "numbers"


class GetSample(PeerRequest[Sample], frozen=True):
    capability, method = "looks", "sample"


class GetHistory(PeerRequest[dict[str, list[float]]], frozen=True):
    capability, method = "looks", "history"


class GetTopicRates(PeerRequest[dict[int, TopicRates]], frozen=True):
    capability, method = "looks", "topic_rates"


class GetLife(PeerRequest[MessageLife], frozen=True):
    """Of a message of the worker's partition."""

    capability, method = "looks", "life"
    topic: str
    partition: int
    offset: int


class FlushTraces(PeerRequest[None], frozen=True):
    """Everything that happened before is written when it returns."""

    capability, method = "looks", "flush_traces"


class GetTrace(PeerRequest[Trace], frozen=True):
    """Of the worker that owns its partition."""

    capability, method = "looks", "trace"
    trace_id: str


class SearchTraces(PeerRequest[list[Trace]], frozen=True):
    """In the partitions of the worker."""

    capability, method = "looks", "search_traces"
    wanted: TraceFilter
    limit: int
