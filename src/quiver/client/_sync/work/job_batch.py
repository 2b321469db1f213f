# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Jobs as whole batches: Arrow columns to read, one call to settle."""

from collections.abc import Iterator
from functools import partial
from types import TracebackType

import pyarrow as pa

from quiver.client._sync.work.job import DECIDED, OPEN, Job, error_text
from quiver.client._sync.work.opened_run import OpenedRun
from quiver.client._sync.work.settlers import Settlers
from quiver.client.transaction.acks import ABORTED, Enlisted
from quiver.client.work.held_run import ranges_of
from quiver.client.work.prefetch_buffer import Slice
from quiver.client.work.reject import Reject
from quiver.client.work.settlement import Decision, Span
from quiver.model.settlement import ACK, NACK, REJECT
from quiver.model.times import Duration, parse_duration_ms


class JobBatch:
    """Messages of one or more runs. What was settled job by job is left out when the batch is settled.

    `with batch` acks on leaving; an exception nacks everything with its text, and propagates.
    """

    def __init__(self, settlers: Settlers, slices: list[Slice[OpenedRun]]) -> None:
        self._settlers = settlers
        self._pieces = [(_opened(taken), taken.first, taken.last) for taken in slices]
        self._jobs: list[Job] | None = None
        self._is_settled = False
        self._is_enlisted = False
        """It is part of a transaction, which decides."""

    def __len__(self) -> int:
        return sum(last - first for _, first, last in self._pieces)

    def __iter__(self) -> Iterator[Job]:
        if self._jobs is None:
            self._jobs = [job for opened, first, last in self._pieces for job in opened.jobs()[first:last]]
            for job in self._jobs:
                job.state = job.state or self._is_settled
        return iter(self._jobs)

    @property
    def table(self) -> pa.Table:
        """The columns of readers, after the topic and before the attempt; nothing is copied."""
        return pa.Table.from_batches([opened.arrow().slice(f, n - f) for opened, f, n in self._pieces])

    @property
    def batch(self) -> pa.RecordBatch:
        """The same columns as one table, copied only if the batch has several runs."""
        if len(self._pieces) == 1:
            opened, first, last = self._pieces[0]
            return opened.arrow().slice(first, last - first)
        return self.table.combine_chunks().to_batches()[0]

    def ack(self) -> None:
        """Acks all of it; on return that is on disk. Raises LeaseLost if another consumer got some of it
        meanwhile."""
        self._settle(Decision(ACK, self._take_open()))

    def nack(self, delay: Duration | None = None, error: str = "", *, counted: bool = True) -> None:
        """Nacks it: delivered again after `delay` (by default the group's backoff)."""
        delay_ms = None if delay is None else parse_duration_ms(delay, "delay")
        spans = self._take_open()
        self._stop_keys()
        self._settle(Decision(NACK, spans, delay_ms=delay_ms, is_counted=counted, reason=error))

    def reject(self, reason: str = "") -> None:
        """Rejects what can never be processed: it is dead-lettered immediately."""
        self._settle(Decision(REJECT, self._take_open(), reason=reason))

    def enlist(self) -> Enlisted:
        """Hands what is open over to a transaction, which acks it or gives it back to its holder. Raises
        LeaseLost."""
        spans = self._take_open()
        self._is_enlisted = True
        return Enlisted(spans, partial(self._on_transaction_end, spans))

    def _on_transaction_end(self, spans: list[Span], committed: bool) -> None:
        if committed:
            self._settlers.acked_elsewhere(spans)
        elif self._is_enlisted:
            self._is_settled = False
            self._reopen(spans)
        else:
            self._stop_keys()
            self._decide(Decision(NACK, spans, reason=ABORTED))

    def __enter__(self) -> "JobBatch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if self._is_settled:
            self._is_enlisted = False
            return isinstance(error, Reject)
        if error is None:
            if any(self._settlers.may_be_expired(opened.run) for opened, _, _ in self._pieces):
                self.ack()
            else:
                self._decide(Decision(ACK, self._take_open()))
        elif isinstance(error, Reject):
            self._decide(Decision(REJECT, self._take_open(), reason=error.reason))
        else:
            spans = self._take_open()
            self._stop_keys()
            is_fault = isinstance(error, Exception)
            reason, delay_ms = (error_text(error), None) if is_fault else ("", 0)
            self._decide(Decision(NACK, spans, delay_ms=delay_ms, is_counted=is_fault, reason=reason))
        return isinstance(error, Reject)

    def _take_open(self) -> list[Span]:
        """Takes what was not settled so far, and marks it as settled. Raises LeaseLost if the lease of the batch was
        lost."""
        if self._is_settled:
            run = self._pieces[0][0].run
            raise run.loss(run.offsets()[0], run.offsets()[-1] + 1)
        self._is_settled = True
        spans: list[Span] = []
        if self._jobs is None:
            for opened, first, last in self._pieces:
                spans += [(opened.run, *span) for span in ranges_of(opened.run.offsets()[first:last])]
            return spans
        for opened, first, last in self._pieces:
            jobs = [job for job in opened.jobs()[first:last] if job.state == OPEN]
            for job in jobs:
                job.state = DECIDED
            spans += [(opened.run, *span) for span in ranges_of(job.offset for job in jobs)]
        return spans

    def _reopen(self, spans: list[Span]) -> None:
        """Jobs that were handed out one by one are open again, too."""
        for opened, first, last in self._pieces if self._jobs is not None else ():
            ranges = [(start, end) for run, start, end in spans if run is opened.run]
            for job in opened.jobs()[first:last]:
                if any(start <= job.offset < end for start, end in ranges):
                    job.state = OPEN

    def _stop_keys(self) -> None:
        if self._pieces[0][0].is_ordered:
            for job in self:
                job.give_back()

    def _decide(self, decision: Decision) -> None:
        if decision.spans:
            self._settlers.decide(decision)

    def _settle(self, decision: Decision) -> None:
        if decision.spans:
            self._settlers.settle(decision)


def _opened(taken: Slice[OpenedRun]) -> OpenedRun:
    assert taken.buffered.content is not None, "slices of batches are opened"
    return taken.buffered.content
