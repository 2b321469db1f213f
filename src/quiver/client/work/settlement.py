"""Decisions about messages, gathered into as few parts of a request as possible. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from quiver.client.work.held_run import HeldRun, LeaseKey
from quiver.model.errors import LeaseLost, QuiverError, error_from_wire
from quiver.model.settlement import ACK, EXTEND, NACK, SettleRequest
from quiver.protocol.queue_messages import RefusedRun, SettledPart

REASON_CHARS = 2_000
"""The most that is kept of an error or a reason."""

Span = tuple[HeldRun, int, int]
"""Offsets of a run, half open."""


class Decision:
    """A decision about some messages. `on_done` is called once, when all responses about it have come."""

    __slots__ = ("action", "delay_ms", "error", "is_counted", "on_done", "parts_open", "reason", "spans", "until_ms")

    def __init__(
        self,
        action: int,
        spans: Sequence[Span],
        *,
        delay_ms: int | None = None,
        is_counted: bool = True,
        reason: str = "",
        on_done: "Callable[[Decision], Any] | None" = None,
    ) -> None:
        self.action = action
        self.spans = spans
        self.delay_ms = delay_ms
        self.is_counted = is_counted
        self.reason = reason[:REASON_CHARS]
        self.on_done = on_done
        self.parts_open = 0
        self.error: QuiverError | None = None
        """The error of the first message that was refused."""
        self.until_ms: int | None = None

    def of(self, spans: Sequence[Span]) -> "Decision":
        """The same decision about some of its messages."""
        return Decision(
            self.action,
            spans,
            delay_ms=self.delay_ms,
            is_counted=self.is_counted,
            reason=self.reason,
            on_done=self.on_done,
        )

    def part_done(self) -> None:
        self.parts_open -= 1
        if self.parts_open == 0 and self.on_done is not None:
            self.on_done(self)


class AckedJob(Protocol):
    """A job to ack, without a caller who waits for it."""

    offset: int

    @property
    def source(self) -> "AckedSource": ...


class AckedSource(Protocol):
    run: HeldRun


class Part:
    """Becomes a part of a request: messages of one lease with the same decision."""

    __slots__ = ("decision", "decisions", "is_renewal", "is_repeat", "spans")

    def __init__(self, decision: Decision, *, is_renewal: bool = False) -> None:
        self.decision = decision
        """A part that says what to do with all of it."""
        self.spans: list[tuple[HeldRun, int, int, Decision | None]] = []
        self.decisions: list[Decision] = []
        self.is_renewal = is_renewal
        self.is_repeat = False
        """It was sent before, and its outcome is unknown."""

    def add(self, span: Span, decision: Decision | None) -> None:
        self.spans.append((*span, decision))

    def takes(self, other: Decision) -> bool:
        own = self.decision
        return own is other or (
            own.action == other.action
            and own.reason == other.reason
            and own.delay_ms == other.delay_ms
            and own.is_counted == other.is_counted
        )

    def request(self) -> SettleRequest:
        said = self.decision
        runs = [(start, end) for _, start, end, _ in self.spans]
        lease = self.spans[0][0].lease
        return SettleRequest(*lease, said.action, runs, said.delay_ms, said.is_counted, said.reason, self.is_repeat)


class Refusal(NamedTuple):
    run: HeldRun
    start: int
    end: int
    decision: Decision | None
    error: QuiverError


_PLAIN_ACK = Decision(ACK, ())


def gather(items: Iterable[AckedJob | Decision]) -> list[Part]:
    """Parts in which the decisions on each lease keep the order of the items."""
    parts: list[Part] = []
    latest: dict[LeaseKey, Part] = {}

    def add(span: Span, said: Decision, decision: Decision | None) -> None:
        lease = span[0].lease
        part = latest.get(lease)
        if part is None or not part.takes(said):
            part = latest[lease] = Part(said)
            parts.append(part)
        part.add(span, decision)
        if decision is not None and (not part.decisions or part.decisions[-1] is not decision):
            part.decisions.append(decision)
            decision.parts_open += 1

    source: AckedSource | None = None
    start = end = 0
    for item in items:
        if isinstance(item, Decision):
            if source is not None:
                add((source.run, start, end), _PLAIN_ACK, None)
                source = None
            for span in item.spans:
                add(span, item, item)
        elif item.source is source and item.offset == end:
            end += 1
        else:
            if source is not None:
                add((source.run, start, end), _PLAIN_ACK, None)
            source, start = item.source, item.offset
            end = start + 1
    if source is not None:
        add((source.run, start, end), _PLAIN_ACK, None)
    return parts


def refusals(part: Part, answer: SettledPart) -> Iterator[Refusal]:
    """What was refused of a part. A repeat whose first request took effect is no failure."""
    for refused in answer.refused:
        error = error_from_wire(refused.code, refused.message, refused.retryable)
        for run, start, end, decision in part.spans:
            low, high = max(start, refused.start), min(end, refused.end)
            if low >= high:
                continue
            if isinstance(error, LeaseLost):
                if part.is_repeat and _has_arrived(part.decision.action, refused):
                    continue
                yield Refusal(run, low, high, decision, run.loss(low, high))
            else:
                yield Refusal(run, low, high, decision, error)


def _has_arrived(action: int, refused: RefusedRun) -> bool:
    """Whether what a repeat asked for has happened, although its lease is gone.

    A missing lease alone proves nothing: leases are not synced, so a power cut may have removed it. A message that
    was nacked and is not settled is delivered again in any case. A lease that is gone cannot be extended.
    """
    return action == NACK or (refused.is_settled and action != EXTEND)
