# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Working as a consumer of a queue group: jobs one at a time, or in batches."""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from types import TracebackType

from quiver.client._backend_sync import Lock, acquire, flatten, sleep
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.work.consumer_loop import ConsumerLoop
from quiver.client._sync.work.consumer_state import ConsumerState
from quiver.client._sync.work.job import Job
from quiver.client._sync.work.job_batch import JobBatch
from quiver.client._sync.work.job_selector import JobSelector
from quiver.client._sync.work.opened_run import OpenedRun, jobs_of
from quiver.client._sync.work.receiver import Receiver
from quiver.client._sync.work.settlers import Settlers
from quiver.client.connection.fork import watch_forks
from quiver.client.raise_once import RaiseOnce
from quiver.client.wait_limit import WaitLimit
from quiver.client.work.options import WorkConfig
from quiver.client.work.prefetch_buffer import PrefetchBuffer, Slice
from quiver.model.errors import Closed, GroupNotFound, MessageTimeout, QuiverError
from quiver.model.times import Duration, wait_seconds
from quiver.protocol.group_messages import DescribeGroup, GroupDescription

_logger = logging.getLogger("quiver.client")

_SLICE_JOBS = 1_024
"""Jobs handed out in a row before acks are sent and new messages are received."""
_LOOK_SECONDS = 5.0
_LAST_SECONDS = 5.0


class Work:
    """Jobs of a group's topics: iterate it, or over `batches()`, or ask for `next_job`.

    Messages are received ahead, as many as are processed in about a second, and handed out by priority. While a job
    is open its lease is renewed, however long that takes. `open`, a `with` block, or asking for the first job opens
    it; threads (synchronous) or tasks may share it.
    """

    def __init__(self, broker: ReconnectingConnection, config: WorkConfig) -> None:
        self._broker = broker
        self._config = config
        self._state = state = ConsumerState(broker, config)
        self._buffer: PrefetchBuffer[OpenedRun] = state.buffer
        self._settlers = settlers = Settlers(state)
        self._receiver = Receiver(state, settlers)
        self._selector = JobSelector(state, settlers, self._receiver.window)
        self._loop = ConsumerLoop(state, settlers, self._receiver)
        self._opening = Lock()
        self._current: Iterator[Job] = iter(())
        self._handed_out = 0
        """Jobs since acks were last sent from here; the loop sends them too, only a little later."""
        self.is_stopped = False
        self.is_closed = False
        watch_forks(self)

    def open(self) -> "Work":
        """Finds the topics. Raises TopicNotFound. Receiving begins with the first job asked for."""
        self._broker.check_fork()
        if self.is_closed:
            raise Closed(what="the work")
        self._open(self._config.timeout_seconds)
        return self

    def _open(self, timeout: float | None) -> None:
        with self._opening:
            if not self._loop.is_running:
                self._receiver.open(timeout)
                self._learn_ordering(timeout)
                self._loop.start()
                _logger.info("group %s: works on %s", self.group, ", ".join(self._config.topics))

    def __iter__(self) -> Iterator[Job]:
        return flatten(self._job_groups())

    def batches(self) -> Iterator[JobBatch]:
        """Whole batches of what is available, up to max_messages."""
        return flatten(self._batch_groups())

    def next_job(self, timeout: Duration | None = None) -> Job | None:
        """Waits for a job; None when the work was stopped or closed. A refusal of earlier acks is raised here.

        Raises MessageTimeout if none came within `timeout`, by default that of the work.
        """
        for job in self._current:
            return job
        limit = self._wait_limit(timeout)
        while self._refill(limit):
            for job in self._current:
                return job
        return None

    def ready_job(self) -> Job | None:
        """The next job that is here already; after None, `refill` waits for more."""
        return next(self._current, None)

    def refill(self) -> bool:
        """Waits until there are jobs for `ready_job`; False when there will be none. Raises as `next_job` does."""
        return self._refill(self._wait_limit(None))

    def next_batch(self, timeout: Duration | None = None) -> JobBatch | None:
        """Waits for messages; None when the work was stopped or closed. MessageTimeout as in `next_job`."""
        self._broker.check_fork()
        limit = self._wait_limit(timeout)
        self._begin_taking(limit)
        try:
            slices: list[Slice[OpenedRun]] = []
            left = self._config.max_messages
            taken = self._next_slice(left, limit)
            while taken is not None:
                if self._buffer.hand_out(taken):
                    slices.append(taken)
                    left -= taken.last - taken.first
                if not slices:
                    taken = self._next_slice(left, limit)
                    continue
                taken = self._selector.take(left) if left else None
                if taken is not None and self._selector.may_be_expired(taken):
                    self._buffer.give_back(taken)
                    break
        finally:
            self._state.taking.release()
        return JobBatch(self._settlers, slices) if slices else None

    @property
    def group(self) -> str:
        return self._config.group

    @property
    def is_ordered(self) -> bool:
        """Whether messages of a key come in order, one lease at a time."""
        return self._state.is_ordered

    def stop(self) -> None:
        """Hands out nothing more, and gives back what was not handed out. Jobs in progress stay leased."""
        self.is_stopped = True
        if self._broker.is_forked:
            return
        self._receiver.stop()
        self._buffer.return_all()
        self._state.news.set()
        self._state.loop_wake.set()

    def give_back(self, jobs: Iterable[Job]) -> None:
        """Gives back jobs that were not started: they become available immediately, and the delivery does not
        count."""
        self._loop.give_back([(job.source.run, job.offset, job.offset + 1) for job in jobs])

    def close(self, timeout: Duration | None = None) -> None:
        """Gives back what was not handed out, waits until every decision is settled, and closes.

        It takes at most `timeout`. Raises the first refusal that was not reported yet. Jobs that are still open
        are delivered again after their visibility time. Does nothing in a forked child: leases are the parent's.
        """
        if self.is_closed or self._broker.is_forked:
            self.is_closed = True
            return
        seconds = wait_seconds(timeout)
        self.is_closed = True
        self.stop()
        try:
            if self._loop.is_running:
                self._loop.return_buffered()
                self._loop.flush(self._broker.timeout if seconds is None else seconds)
        finally:
            self._loop.end()
            self._broker.close()
            self._settlers.close(Closed(what="the work"))
        if self._state.errors:
            raise self._state.errors.popleft()

    def check_fork(self) -> None:
        self._broker.check_fork()

    def after_fork(self, parent_pid: int) -> None:
        """A forked child gets nothing: every job is the parent's."""
        self._buffer.after_fork()
        self._settlers.after_fork()
        for _ in self._current:
            pass

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

    def _job_groups(self) -> Iterator[Iterable[Job]]:
        yield self._current
        while True:
            try:
                if not self._refill(self._wait_limit(None)):
                    return
            except MessageTimeout as error:
                yield RaiseOnce(error)
            else:
                yield self._current

    def _batch_groups(self) -> Iterator[Iterable[JobBatch]]:
        while True:
            try:
                batch = self.next_batch()
                if batch is None:
                    return
            except MessageTimeout as error:
                yield RaiseOnce(error)
            else:
                yield [batch]

    def _refill(self, limit: WaitLimit) -> bool:
        """Makes the next jobs current, unless another caller just did; False at the end."""
        self._broker.check_fork()
        seen = self._current
        self._begin_taking(limit)
        try:
            if self._current is not seen:
                return True
            while (taken := self._next_slice(_SLICE_JOBS, limit)) is not None:
                current = iter(jobs_of(taken))
                if self._buffer.set_current(taken, current):
                    self._current = current
                    return True
            return False
        finally:
            self._state.taking.release()

    def _wait_limit(self, timeout: Duration | None) -> WaitLimit:
        seconds = self._config.timeout_seconds if timeout is None else wait_seconds(timeout)
        return WaitLimit(self._broker.clock, self._broker.log, seconds)

    def _begin_taking(self, limit: WaitLimit) -> None:
        """One caller takes from the buffer at a time, even while it is empty."""
        if not acquire(self._state.taking, limit.left):
            raise limit.error()

    def _next_slice(self, max_count: int, limit: WaitLimit) -> Slice[OpenedRun] | None:
        """Messages that this consumer has leased; None at the end. Refusals that were not reported yet are raised
        here."""
        if not self._loop.is_running:
            if self.is_closed:
                raise Closed(what="the work")
            self._open(limit.left)
        sleep(0)  # lets responses in, however busy the consumer is
        while not self.is_stopped:
            if self._state.errors:
                raise self._state.errors.popleft()
            self._state.news.clear()
            taken = self._selector.take(max_count)
            if taken is None or 2 * self._handed_out >= self._receiver.window.size:
                self._handed_out = 0
                self._settlers.pump(timeout=limit.left)
                self._receiver.resume()
                self._receiver.ask(limit.left)
            if taken is None:
                if limit.is_over:
                    raise limit.error()
                self._wait(limit)
            elif not self._selector.may_be_expired(taken):
                self._handed_out += taken.last - taken.first
                return taken
            else:
                self._buffer.give_back(taken)
                self._confirm(limit)
        return None

    def _wait(self, limit: WaitLimit) -> None:
        """Waits until something has arrived or failed."""
        receiver = self._receiver
        if receiver.error is not None:
            raise receiver.error
        if receiver.was_full:
            receiver.was_full = False
            receiver.window.grow()
        receiver.is_wanted = True
        try:
            receiver.ask(limit.left, is_waited_for=True)
            receiver.wait(self._state.news, limit.most(_LOOK_SECONDS))
        finally:
            receiver.is_wanted = False

    def _confirm(self, limit: WaitLimit) -> None:
        """After a long pause of this process leases may have ended: asks the broker which ones still hold."""
        if limit.is_over:
            raise limit.error()
        self._settlers.make_due()
        self._settlers.pump(is_urgent=True, timeout=limit.left)
        self._state.news.wait(limit.most(_LOOK_SECONDS))

    def _learn_ordering(self, timeout: float | None) -> None:
        """An existing group has its ordering, whether or not it was given here."""
        if self._config.ordering is None:
            with contextlib.suppress(GroupNotFound):
                answer = (self._broker.call(DescribeGroup(self._config.group), timeout=timeout)).answer
                if isinstance(answer, GroupDescription):
                    self._state.is_ordered = answer.settings.get("ordering") == "key"
