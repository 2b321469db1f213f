# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Working as a consumer of a queue group: jobs one at a time, or in batches."""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType

from quiver.client._backend_sync import Lock, Signal, Task, flatten, sleep
from quiver.client._sync.job import Job
from quiver.client._sync.job_batch import JobBatch
from quiver.client._sync.link import Link
from quiver.client._sync.opened_run import OpenedRun
from quiver.client._sync.receiver import Receiver
from quiver.client._sync.settler import Settler
from quiver.client.held_run import HeldRun
from quiver.client.leases import Leases
from quiver.client.settlement import Decision
from quiver.client.shelf import Portion, Shelf
from quiver.client.work_options import WorkOptions
from quiver.model.errors import Closed, GroupNotFound, QuiverError
from quiver.protocol.group_messages import DescribeGroup, GroupDescription
from quiver.protocol.queue_messages import NACK

_PORTION = 256
"""Jobs that go out in a row, before acks are sent and news are looked at."""
_TICK_SECONDS = 0.002
"""How long acks gather while a handler runs."""
_LOOK_SECONDS = 5.0
_LAST_SECONDS = 5.0
_ERRORS_KEPT = 100


class Work:
    """Jobs of a group's topics: iterate it, or over `batches()`, or ask for `next_job`.

    Messages are received ahead, as many as are used up in about a second, the more urgent ones handed out first.
    While a job is open its lease is renewed, however long that takes. It is opened by `open`, a `with` block, or the
    first job asked for, and may be shared by threads (synchronous) or tasks.
    """

    def __init__(self, link: Link, options: WorkOptions) -> None:
        self._link = link
        self._options = options
        self._leases = Leases()
        self._shelf: Shelf[OpenedRun] = Shelf()
        self._wake = Signal()
        self._news = Signal()
        self._settler = Settler(
            link,
            self._leases,
            wake=self._wake.set,
            on_refused=self._on_refused,
            on_lost=self._shelf.clear_counter,
            on_progress=self._on_progress,
        )
        self._receiver = Receiver(
            link, options, self._leases, self._shelf, on_news=self._on_news, on_error=self._on_refused
        )
        self._keeper: Task | None = None
        self._opening = Lock()
        self._taking = Lock()
        self._retiring = Lock()
        self._is_retired = False
        self._counter: Iterator[Job] = iter(())
        self._errors: deque[QuiverError] = deque(maxlen=_ERRORS_KEPT)
        self._is_ordered = options.ordering == "key"
        self._sleeps_until = 0.0
        self._is_stopped = False
        self.is_closed = False

    def open(self) -> "Work":
        """Finds the topics; TopicNotFound. Receiving begins with the first job asked for."""
        if self.is_closed:
            raise Closed(what="the work")
        with self._opening:
            if self._keeper is None:
                self._receiver.open()
                self._learn_ordering()
                self._keeper = Task(self._keep, "quiver-work")
        return self

    def __iter__(self) -> Iterator[Job]:
        return flatten(self._portions())

    def batches(self) -> Iterator[JobBatch]:
        """Whole batches: what is there, up to max_messages."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_job(self) -> Job | None:
        """Waits for a job; None when the work was stopped or closed. A refusal of earlier acks is raised here."""
        while True:
            for job in self._counter:
                return job
            if not self._lay_out():
                return None

    def next_batch(self) -> JobBatch | None:
        """Waits for messages; None when the work was stopped or closed."""
        with self._taking:
            portions: list[Portion[OpenedRun]] = []
            left = self._options.max_messages
            first = self._next_portion(left)
            while first is not None:
                portions.append(first)
                left -= first.last - first.first
                first = self._take(left) if left else None
        return JobBatch(self._settler, portions) if portions else None

    @property
    def group(self) -> str:
        return self._options.group

    @property
    def is_ordered(self) -> bool:
        """Whether messages of a key come in order, one lease at a time."""
        return self._is_ordered

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def stop(self) -> None:
        """Hands out nothing more, and gives back what was not handed out. Jobs that are worked on stay leased."""
        self._is_stopped = True
        self._receiver.stop()
        self._shelf.clear_counter()
        self._news.set()
        self._wake.set()

    def give_back(self, jobs: Iterable[Job]) -> None:
        """Returns jobs that were not begun: others get them at once, and the delivery does not count."""
        spans = [(job.source.run, job.offset, job.offset + 1) for job in jobs]
        if spans:
            self._settler.decide(Decision(NACK, spans, delay_ms=0, is_counted=False, on_done=_ignore))

    def close(self, timeout: float | None = None) -> None:
        """Gives back what was not handed out, waits until everything decided is settled, and ends.

        It takes at most `timeout` seconds. Raises the first refusal that nobody was told of. Jobs that are still open
        are delivered again after their visibility time.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self.stop()
        try:
            if self._keeper is not None:
                with self._taking:
                    self._retire()
                self._flush(self._link.timeout if timeout is None else timeout)
        finally:
            self._wake.set()
            self._link.close()
            self._settler.give_up(Closed(what="the work"))
        if self._errors:
            raise self._errors.popleft()

    def __enter__(self) -> "Work":
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with contextlib.suppress(QuiverError):
            self.close(_LAST_SECONDS)

    # handing out

    def _portions(self) -> Iterator[Iterable[Job]]:
        yield self._counter
        while self._lay_out():
            yield self._counter

    def _lay_out(self) -> bool:
        """Puts jobs on the counter, unless somebody else just did; False at the end."""
        seen = self._counter
        with self._taking:
            if self._counter is not seen:
                return True
            portion = self._next_portion(_PORTION)
            if portion is None:
                return False
            opened = portion.stock.content
            assert opened is not None, "portions are opened when they are taken"
            counter = iter(opened.jobs()[portion.first : portion.last])
            self._shelf.lay_out(portion, counter)
            self._counter = counter
            return True

    def _next_portion(self, limit: int) -> Portion[OpenedRun] | None:
        if self._keeper is None:
            self.open()
        sleep(0)  # lets answers in, however busy the consumer is
        while not self._is_stopped:
            if self._errors:
                raise self._errors.popleft()
            self._news.clear()
            self._settler.pump()
            self._receiver.ask()
            portion = self._take(limit)
            if portion is None:
                self._wait()
            elif self._link.clock.monotonic() < portion.stock.run.expires_at:
                return portion
            else:
                self._shelf.give_back(portion)
                self._confirm()
        return None

    def _take(self, limit: int) -> Portion[OpenedRun] | None:
        """Rows that are still ours, opened."""
        clock, shelf = self._link.clock, self._shelf
        while True:
            portion = shelf.take(1 if shelf.has_stopped_keys else limit, clock.now_ms())
            if portion is None:
                return None
            stock = portion.stock
            if stock.content is None:
                self._receiver.window.waited(clock.monotonic() - stock.arrived_at)
                stock.content = self._open_run(stock.run)
            if stock.run.lost is None and not shelf.has_stopped_keys:
                return portion
            if portion.last - portion.first > 1:
                shelf.give_back(portion)
                limit = 1
            elif self._is_ours(portion):
                return portion

    def _open_run(self, run: HeldRun) -> OpenedRun:
        try:
            return OpenedRun(run, self._options.limits, self._settler, self._shelf if self._is_ordered else None)
        except QuiverError:
            self._shelf.drop(run)
            self._leases.close([(run, *span) for span in run.open_ranges()])
            raise

    def _is_ours(self, portion: Portion[OpenedRun]) -> bool:
        """Whether a single row is still to be handed out; one that is not needs nothing more from here."""
        run, opened = portion.stock.run, portion.stock.content
        assert opened is not None, "portions are opened when they are taken"
        job = opened.jobs()[portion.first]
        if run.lost is not None and job.offset in run.lost:
            return False
        if job.key is not None and self._shelf.is_stopped(run.lease, job.key):
            self._leases.close([(run, job.offset, job.offset + 1)])
            return False
        return True

    def _wait(self) -> None:
        """Until something has come, or is known to be wrong."""
        receiver = self._receiver
        if receiver.error is not None:
            raise receiver.error
        if receiver.was_full:
            receiver.was_full = False
            receiver.window.ran_dry()
        receiver.is_wanted = True
        try:
            receiver.ask()
            self._news.wait(_LOOK_SECONDS)
        finally:
            receiver.is_wanted = False

    def _confirm(self) -> None:
        """After a long pause of this process nobody knows whether what lies here is still ours: asks the broker."""
        self._leases.make_due()
        self._settler.pump(is_urgent=True)
        self._news.wait(_LOOK_SECONDS)

    # in the background

    def _keep(self) -> None:
        """Sends acks while a handler runs, renews leases, and asks for more when there is room."""
        settler, receiver = self._settler, self._receiver
        while not self._link.is_closed:
            settler.is_asleep = True
            now = self._link.clock.monotonic()
            self._sleeps_until = min(settler.due_at(), receiver.due_at(), now + _LOOK_SECONDS)
            self._wake.wait(max(0.0, self._sleeps_until - now))
            settler.is_asleep = False
            self._wake.clear()
            sleep(_TICK_SECONDS)
            settler.check_silence()
            receiver.check_silence()
            settler.pump()
            if self._is_stopped and not self._is_retired:
                with self._taking:
                    self._retire()
            elif receiver.is_begun:
                receiver.ask()

    def _on_news(self) -> None:
        self._news.set()
        receiver = self._receiver
        if not receiver.is_wanted or receiver.is_failing or self._leases.renew_at < self._sleeps_until:
            self._wake.set()

    def _on_progress(self) -> None:
        self._news.set()
        if self._settler.decided or self._leases.renew_at < self._sleeps_until:
            self._wake.set()

    def _on_refused(self, error: QuiverError) -> None:
        self._errors.append(error)
        self._shelf.clear_counter()
        self._news.set()

    def _learn_ordering(self) -> None:
        """A group that is there already has its ordering, whether or not it was named here."""
        if self._options.ordering is None:
            with contextlib.suppress(GroupNotFound):
                answer = (self._link.call(DescribeGroup(self._options.group))).answer
                if isinstance(answer, GroupDescription):
                    self._is_ordered = answer.settings.get("ordering") == "key"

    def _retire(self) -> None:
        """Ends the request for messages that may be in flight, and gives back what was not handed out."""
        with self._retiring:
            if self._is_retired:
                return
            self._is_retired = True
            self._receiver.retire(_LAST_SECONDS)
            self._give_back()
            self._settler.pump(is_urgent=True)

    def _give_back(self) -> None:
        spans = self._shelf.empty()
        if spans:
            self._settler.decide(Decision(NACK, spans, delay_ms=0, is_counted=False, on_done=_ignore))

    def _flush(self, timeout: float) -> None:
        """Waits until everything that was decided is answered."""
        deadline = self._link.clock.monotonic() + timeout
        while not self._settler.is_idle:
            self._news.clear()
            self._settler.pump()
            left = deadline - self._link.clock.monotonic()
            if left <= 0 or self._settler.is_idle:
                return
            self._news.wait(min(left, _TICK_SECONDS * 10))


def _ignore(decision: Decision) -> None:
    """What cannot be given back is no longer ours anyway."""
