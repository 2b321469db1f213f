"""A received message: read it, then ack, nack or reject it."""

from types import TracebackType
from typing import Any

from quiver.client._async.work.settler import AsyncSettler
from quiver.client.message import Message, MessageSource
from quiver.client.transaction.acks import ABORTED, Enlisted
from quiver.client.work.held_run import HeldRun
from quiver.client.work.prefetch_buffer import PrefetchBuffer
from quiver.client.work.reject import Reject
from quiver.client.work.settlement import Decision
from quiver.model.errors import LeaseLost, QuiverError
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT, Receipt
from quiver.model.times import Duration, parse_duration_ms
from quiver.records.read import OpenFrame

OPEN, DECIDED, GIVEN_BACK, ENLISTED, LEFT = 0, 1, 2, 3, 4
"""ENLISTED: a transaction decides. LEFT: the same, and the job's own block was left meanwhile."""


class AsyncJobSource(MessageSource):
    """What the jobs of one run have in common."""

    __slots__ = ("ordered", "run", "settler")

    def __init__(
        self, frame: OpenFrame, run: HeldRun, settler: AsyncSettler, ordered: PrefetchBuffer[Any] | None
    ) -> None:
        super().__init__(frame, run.topic, run.partition)
        self.run = run
        self.settler = settler
        self.ordered = ordered
        """The places of the jobs, if they come in order of their keys."""


class AsyncJob(Message, gc=False, eq=False):
    """A message of a queue group, leased to this consumer. The lease is renewed until the job is settled.

    `async with job` acks on leaving; an exception nacks the message with its text, and propagates. The ack is sent
    within milliseconds together with others; if it is refused, asking for the next job raises that.
    """

    source: AsyncJobSource
    state: int = OPEN

    @property
    def is_settled(self) -> bool:
        """Whether it was settled here."""
        return self.state != OPEN

    @property
    def attempt(self) -> int:
        """Deliveries so far, this one included."""
        return self.source.run.attempt

    @property
    def first_delivered(self) -> int:
        """When it was delivered for the first time, epoch milliseconds."""
        return self.source.run.first_delivered_ms

    @property
    def last_error(self) -> str | None:
        """Why the last delivery failed."""
        return self.source.run.last_error or None

    @property
    def receipt(self) -> str:
        """The receipt, which settles this delivery over HTTP too."""
        run = self.source.run
        return str(Receipt(run.topic, run.partition, self.offset, run.attempt, *run.lease[2:]))

    async def ack(self) -> None:
        """Acks it; on return that is on disk. Raises LeaseLost if another consumer got it meanwhile."""
        await self._settle(ACK)

    async def nack(self, delay: Duration | None = None, error: str = "", *, counted: bool = True) -> None:
        """Nacks it: delivered again after `delay` (by default the group's backoff).

        `error` is kept as its last error. With `counted=False`, this delivery does not count as an attempt.
        """
        delay_ms = None if delay is None else parse_duration_ms(delay, "delay")
        await self._settle(NACK, delay_ms=delay_ms, is_counted=counted, reason=error)

    async def reject(self, reason: str = "") -> None:
        """Rejects a message that can never be processed: it is dead-lettered immediately."""
        await self._settle(REJECT, reason=reason)

    async def extend(self, duration: Duration | None = None) -> int:
        """Extends the lease to `duration` (by default the visibility) from now; returns its end in epoch
        milliseconds.

        Leases are renewed automatically while a job is open: this is for times in which the program does not run.
        """
        run, offset = self.source.run, self.offset
        self._check_open()
        length_ms = run.visibility_ms if duration is None else parse_duration_ms(duration, "duration")
        settler = self.source.settler
        now = settler.clock.monotonic()
        until_ms = await settler.settle(Decision(EXTEND, [(run, offset, offset + 1)], delay_ms=length_ms))
        run.extend(offset, offset + 1, now, length_ms)
        return until_ms or 0

    async def __aenter__(self) -> "AsyncJob":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self.state:
            self._leave_enlisted()
            return isinstance(error, Reject)
        if error is None:
            settler, run = self.source.settler, self.source.run
            # Without a call in between: this runs for every message, and the lease is nearly always known to hold.
            is_held = settler.monotonic() < run.expires_at and run.lost is None and not settler.is_closed
            if not is_held and settler.may_be_expired(run):
                await self.ack()
                return False
            self.state = DECIDED
            settler.decided.append(self)
            if settler.is_asleep:
                settler.wake_soon()
            return False
        self.leave(error)
        return isinstance(error, Reject)

    def leave(self, error: BaseException) -> None:
        """Settles the message according to an exception, without waiting for the response."""
        run, offset = self.source.run, self.offset
        self._leave_enlisted()
        if self.state or (run.lost is not None and offset in run.lost):
            return
        self.state = DECIDED
        span = [(run, offset, offset + 1)]
        if isinstance(error, Reject):
            decision = Decision(REJECT, span, reason=error.reason)
        elif isinstance(error, Exception):
            decision = Decision(NACK, span, reason=error_text(error))
        else:
            decision = Decision(NACK, span, delay_ms=0, is_counted=False)
        if decision.action == NACK:
            self.give_back()
        self.source.settler.decide(decision)

    def enlist(self) -> Enlisted:
        """Makes it part of a transaction, which acks it or gives it back to its holder. Raises LeaseLost."""
        self._check_open()
        self.state = ENLISTED
        return Enlisted([(self.source.run, self.offset, self.offset + 1)], self._on_transaction_end)

    def _leave_enlisted(self) -> None:
        if self.state == ENLISTED:
            self.state = LEFT

    def _on_transaction_end(self, committed: bool) -> None:
        span = (self.source.run, self.offset, self.offset + 1)
        if committed:
            self.state = DECIDED
            self.source.settler.acked_elsewhere([span])
        elif self.state == ENLISTED:
            self.state = OPEN
        else:
            self.give_back()
            self.source.settler.decide(Decision(NACK, [span], reason=ABORTED))

    def forget(self) -> None:
        """The broker has taken it back already."""
        self.state = GIVEN_BACK
        self.source.settler.leases.close([(self.source.run, self.offset, self.offset + 1)])

    def __repr__(self) -> str:
        place = f"topic={self.topic!r}, partition={self.partition}, offset={self.offset}, attempt={self.attempt}"
        return f"Job({place}, key={self.key!r}, value={self.value!r})"

    def _check_open(self) -> None:
        self.source.run.check_not_lost(self.offset)
        if self.state:
            raise self.source.run.loss(self.offset, self.offset + 1)

    async def _settle(
        self, action: int, *, delay_ms: int | None = None, is_counted: bool = True, reason: str = ""
    ) -> None:
        self._check_open()
        self.state = DECIDED
        if action == NACK:
            self.give_back()
        span = (self.source.run, self.offset, self.offset + 1)
        decision = Decision(action, [span], delay_ms=delay_ms, is_counted=is_counted, reason=reason)
        try:
            await self.source.settler.settle(decision)
        except LeaseLost:
            raise
        except QuiverError:
            self.state = self.state if decision.error is None else OPEN
            raise

    def give_back(self) -> None:
        """Marks it as given back, and with it everything after it of the same key and lease."""
        self.state = GIVEN_BACK
        ordered = self.source.ordered
        if ordered is not None and self.key is not None:
            ordered.stop_key(self.source.run.lease, self.key)


def error_text(error: BaseException) -> str:
    """An exception as it is kept with the message."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
