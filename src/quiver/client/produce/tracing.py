"""Puts messages into traces: their header `traceparent` says which, and whether it is recorded."""

import math
import sys
from collections.abc import Callable
from typing import Any

from quiver.client.produce.options import SendOptions
from quiver.model.errors import InvalidRequest
from quiver.model.trace.traceparent import TRACEPARENT, TraceParent
from quiver.system.randomness import Randomness

_OPENTELEMETRY = "opentelemetry.trace"
_LARGEST = 1 - 2**-53


class Tracing:
    """Where there is a current span of OpenTelemetry, its trace goes on, sampled or not. Otherwise a share of the
    messages begins a trace of its own. A message that has the header already keeps it."""

    def __init__(self, share: float, current_span: Callable[[], Any] | None, randomness: Randomness) -> None:
        self._share = share
        self._current_span = current_span
        self._randomness = randomness
        self._left = self._gap()
        """Messages up to the next one that begins a trace. Counting down is cheaper than a random number for each;
        threads that count at the same time may count less, which changes the share a little."""

    def added_to(self, options: SendOptions) -> SendOptions:
        """The options of a send, with the header. All messages of one call are in the same trace."""
        if not options and self._current_span is None and self._left > 1:
            self._left -= 1
            return options
        headers = options.get("headers") or {}
        parent = None if TRACEPARENT in headers else self._current() or self._begun()
        if parent is None:
            return options
        return {**options, "headers": {**headers, TRACEPARENT: parent.text}}

    def _current(self) -> TraceParent | None:
        if self._current_span is None:
            return None
        context = self._current_span().get_span_context()
        if not context.is_valid:
            return None
        return TraceParent(f"{context.trace_id:032x}", f"{context.span_id:016x}", bool(context.trace_flags & 1))

    def _begun(self) -> TraceParent | None:
        self._left -= 1
        if self._left > 0:
            return None
        self._left = self._gap()
        return TraceParent(self._randomness.token(16).hex(), self._randomness.token(8).hex(), True)

    def _gap(self) -> float:
        """Messages from one that begins a trace to the next, so that each begins one with the same probability."""
        if not self._share:
            return math.inf
        if self._share == 1:
            return 1
        return 1 + math.floor(math.log(1 - min(self._randomness.jitter(), _LARGEST)) / math.log(1 - self._share))


def new_tracing(share: float, randomness: Randomness) -> Tracing | None:
    """None if nothing is traced: no share is given, and the program does not use OpenTelemetry."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InvalidRequest(problem=f"tracing is a share of the messages from 0 to 1, not {share!r}")
    opentelemetry = sys.modules.get(_OPENTELEMETRY)
    if opentelemetry is None and not share:
        return None
    current_span = None if opentelemetry is None else opentelemetry.get_current_span
    return Tracing(float(share), current_span, randomness)
