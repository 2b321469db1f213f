"""Puts messages into traces: their header `traceparent` says which, and whether it is recorded."""

import sys
from collections.abc import Callable
from typing import Any

from quiver.client.produce.frame_sampler import FrameSampler
from quiver.client.produce.options import SendOptions
from quiver.model.errors import InvalidRequest
from quiver.model.trace.traceparent import TRACEPARENT, TraceParent
from quiver.system.randomness import Randomness

_OPENTELEMETRY = "opentelemetry.trace"


class Tracing:
    """Where there is a current span of OpenTelemetry, its trace goes on, sampled or not. Otherwise a share of the
    messages begins a trace of its own. A message that has the header already keeps it."""

    def __init__(self, share: float, current_span: Callable[[], Any] | None, randomness: Randomness) -> None:
        self._share = share
        self._current_span = current_span
        self._randomness = randomness
        self.has_context = current_span is not None
        """Whether the caller of a send may be in a span."""

    def new_sampler(self) -> FrameSampler | None:
        """For the frames of one producer; None if no message begins a trace."""
        return FrameSampler(self._share, self._randomness) if self._share else None

    def added_to(self, options: SendOptions) -> SendOptions:
        """The options of a send, with the header of the current span. All messages of one call are in the same
        trace."""
        headers = options.get("headers") or {}
        parent = None if TRACEPARENT in headers else self.current()
        if parent is None:
            return options
        return {**options, "headers": {**headers, TRACEPARENT: parent.text}}

    def current(self) -> TraceParent | None:
        """Of the span that the caller is in."""
        if self._current_span is None:
            return None
        context = self._current_span().get_span_context()
        if not context.is_valid:
            return None
        return TraceParent(f"{context.trace_id:032x}", f"{context.span_id:016x}", bool(context.trace_flags & 1))


def new_tracing(share: float, randomness: Randomness) -> Tracing | None:
    """None if nothing is traced: no share is given, and the program does not use OpenTelemetry."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InvalidRequest(problem=f"tracing is a share of the messages from 0 to 1, not {share!r}")
    opentelemetry = sys.modules.get(_OPENTELEMETRY)
    if opentelemetry is None and not share:
        return None
    current_span = None if opentelemetry is None else opentelemetry.get_current_span
    return Tracing(float(share), current_span, randomness)
