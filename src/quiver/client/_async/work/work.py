"""Working as a consumer of a queue group: jobs one at a time, or in batches."""

import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from types import TracebackType

from quiver.client._async.connection.reconnecting import AsyncLink
from quiver.client._async.work.consumer_loop import AsyncKeeper
from quiver.client._async.work.job import AsyncJob
from quiver.client._async.work.job_batch import AsyncJobBatch
from quiver.client._async.work.job_selector import AsyncPicker
from quiver.client._async.work.opened_run import AsyncOpenedRun, jobs_of
from quiver.client._async.work.receiver import AsyncReceiver
from quiver.client._async.work.settler import AsyncSettler
from quiver.client._backend_async import Lock, Signal, acquire, flatten, sleep
from quiver.client.connection.fork import watch_forks
from quiver.client.raise_once import Raising
from quiver.client.wait_limit import Patience
from quiver.client.work.leases import Leases
from quiver.client.work.options import WorkOptions
from quiver.client.work.prefetch_buffer import Portion, Shelf
from quiver.model.errors import Closed, GroupNotFound, MessageTimeout, QuiverError
from quiver.model.times import Duration, wait_seconds
from quiver.protocol.group_messages import DescribeGroup, GroupDescription

_logger = logging.getLogger("quiver.client")

_PORTION = 256
"""Jobs that go out in a row, before acks are sent and news are looked at."""
_LOOK_SECONDS = 5.0
_LAST_SECONDS = 5.0
_ERRORS_KEPT = 100


class AsyncWork:
    """Jobs of a group's topics: iterate it, or over `batches()`, or ask for `next_job`.

    Messages are received ahead, as many as are used up in about a second, the more urgent ones handed out first.
    While a job is open its lease is renewed, however long that takes. It is opened by `open`, a `with` block, or the
    first job asked for, and may be shared by threads (synchronous) or tasks.
    """

    def __init__(self, link: AsyncLink, options: WorkOptions) -> None:
        self._link = link
        self._options = options
        self._leases = Leases()
        self._shelf: Shelf[AsyncOpenedRun] = Shelf()
        self._wake = Signal()
        self._news = Signal()
        self._settler = AsyncSettler(
            link,
            self._leases,
            wake=self._wake.set,
            on_refused=self._on_refused,
            on_lost=self._shelf.clear_counter,
            on_progress=lambda: self._keeper.note_progress(),
        )
        self._receiver = AsyncReceiver(
            link,
            options,
            self._leases,
            self._shelf,
            on_news=lambda: self._keeper.note_news(),
            on_error=self._on_refused,
        )
        self._picker = AsyncPicker(
            self._shelf,
            self._settler,
            self._receiver.window,
            options.limits,
            is_ordered=options.ordering == "key",
        )
        self._opening = Lock()
        self._taking = Lock()
        self._keeper = AsyncKeeper(
            link,
            self._settler,
            self._receiver,
            self._leases,
            self._shelf,
            taking=self._taking,
            wake=self._wake,
            news=self._news,
        )
        self._counter: Iterator[AsyncJob] = iter(())
        self._handed_out = 0
        """Since acks were last sent from here; the keeper does it too, only a little later."""
        self._errors: deque[QuiverError] = deque(maxlen=_ERRORS_KEPT)
        self.is_stopped = False
        self.is_closed = False
        watch_forks(self)

    async def open(self) -> "AsyncWork":
        """Finds the topics; TopicNotFound. Receiving begins with the first job asked for."""
        self._link.check_fork()
        if self.is_closed:
            raise Closed(what="the work")
        await self._open(self._options.timeout_seconds)
        return self

    async def _open(self, timeout: float | None) -> None:
        async with self._opening:
            if not self._keeper.is_running:
                await self._receiver.open(timeout)
                await self._learn_ordering(timeout)
                self._keeper.start()
                _logger.info("group %s: works on %s", self.group, ", ".join(self._options.topics))

    def __aiter__(self) -> AsyncIterator[AsyncJob]:
        return flatten(self._portions())

    def batches(self) -> AsyncIterator[AsyncJobBatch]:
        """Whole batches: what is there, up to max_messages."""
        return flatten(self._batch_groups())

    async def next_job(self, timeout: Duration | None = None) -> AsyncJob | None:
        """Waits for a job; None when the work was stopped or closed. A refusal of earlier acks is raised here.

        MessageTimeout when none came within `timeout`, by default that of the work.
        """
        for job in self._counter:
            return job
        patience = self._patience(timeout)
        while await self._lay_out(patience):
            for job in self._counter:
                return job
        return None

    async def next_batch(self, timeout: Duration | None = None) -> AsyncJobBatch | None:
        """Waits for messages; None when the work was stopped or closed. MessageTimeout as in `next_job`."""
        self._link.check_fork()
        patience = self._patience(timeout)
        await self._begin_taking(patience)
        try:
            portions: list[Portion[AsyncOpenedRun]] = []
            left = self._options.max_messages
            portion = await self._next_portion(left, patience)
            while portion is not None:
                portions.append(portion)
                left -= portion.last - portion.first
                portion = self._picker.take(left) if left else None
                if portion is not None and self._picker.is_doubtful(portion):
                    self._shelf.give_back(portion)
                    break
        finally:
            self._taking.release()
        return AsyncJobBatch(self._settler, portions) if portions else None

    @property
    def group(self) -> str:
        return self._options.group

    @property
    def is_ordered(self) -> bool:
        """Whether messages of a key come in order, one lease at a time."""
        return self._picker.is_ordered

    def stop(self) -> None:
        """Hands out nothing more, and gives back what was not handed out. Jobs that are worked on stay leased."""
        self.is_stopped = True
        if self._link.is_forked:
            return
        self._receiver.stop()
        self._shelf.clear_counter()
        self._news.set()
        self._wake.set()

    def give_back(self, jobs: Iterable[AsyncJob]) -> None:
        """Returns jobs that were not begun: others get them at once, and the delivery does not count."""
        self._keeper.give_back([(job.source.run, job.offset, job.offset + 1) for job in jobs])

    async def close(self, timeout: Duration | None = None) -> None:
        """Gives back what was not handed out, waits until everything decided is settled, and ends.

        It takes at most `timeout`. Raises the first refusal that nobody was told of. Jobs that are still open
        are delivered again after their visibility time. In a forked child it does nothing: leases are the parent's.
        """
        if self.is_closed or self._link.is_forked:
            self.is_closed = True
            return
        seconds = wait_seconds(timeout)
        self.is_closed = True
        self.stop()
        try:
            if self._keeper.is_running:
                await self._keeper.put_away()
                await self._keeper.flush(self._link.timeout if seconds is None else seconds)
        finally:
            await self._keeper.end()
            await self._link.close()
            self._settler.close(Closed(what="the work"))
        if self._errors:
            raise self._errors.popleft()

    def check_fork(self) -> None:
        self._link.check_fork()

    def after_fork(self, parent_pid: int) -> None:
        """The child is handed nothing: every job is the parent's."""
        self._shelf.after_fork()
        self._leases.after_fork()
        for _ in self._counter:
            pass

    async def __aenter__(self) -> "AsyncWork":
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(QuiverError):
            await self.close(_LAST_SECONDS)

    # handing out

    async def _portions(self) -> AsyncIterator[Iterable[AsyncJob]]:
        yield self._counter
        while True:
            try:
                if not await self._lay_out(self._patience(None)):
                    return
            except MessageTimeout as error:
                yield Raising(error)
            else:
                yield self._counter

    async def _batch_groups(self) -> AsyncIterator[Iterable[AsyncJobBatch]]:
        while True:
            try:
                batch = await self.next_batch()
                if batch is None:
                    return
            except MessageTimeout as error:
                yield Raising(error)
            else:
                yield [batch]

    async def _lay_out(self, patience: Patience) -> bool:
        """Puts jobs on the counter, unless somebody else just did; False at the end."""
        self._link.check_fork()
        seen = self._counter
        await self._begin_taking(patience)
        try:
            if self._counter is not seen:
                return True
            portion = await self._next_portion(_PORTION, patience)
            if portion is None:
                return False
            counter = iter(jobs_of(portion))
            self._shelf.lay_out(portion, counter)
            self._counter = counter
            return True
        finally:
            self._taking.release()

    def _patience(self, timeout: Duration | None) -> Patience:
        seconds = self._options.timeout_seconds if timeout is None else wait_seconds(timeout)
        return Patience(self._link.clock, self._link.log, seconds)

    async def _begin_taking(self, patience: Patience) -> None:
        """One takes from the shelf at a time, also while there is nothing on it."""
        if not await acquire(self._taking, patience.left):
            raise patience.error()

    async def _next_portion(self, limit: int, patience: Patience) -> Portion[AsyncOpenedRun] | None:
        """Messages that are ours; None at the end. Refusals that nobody was told of are raised here."""
        if not self._keeper.is_running:
            if self.is_closed:
                raise Closed(what="the work")
            await self._open(patience.left)
        await sleep(0)  # lets answers in, however busy the consumer is
        while not self.is_stopped:
            if self._errors:
                raise self._errors.popleft()
            self._news.clear()
            portion = self._picker.take(limit)
            if portion is None or 2 * self._handed_out >= self._receiver.window.size:
                self._handed_out = 0
                await self._settler.pump(timeout=patience.left)
                self._receiver.resume()
                await self._receiver.ask(patience.left)
            if portion is None:
                if patience.is_over:
                    raise patience.error()
                await self._wait(patience)
            elif not self._picker.is_doubtful(portion):
                self._handed_out += portion.last - portion.first
                return portion
            else:
                self._shelf.give_back(portion)
                await self._confirm(patience)
        return None

    async def _wait(self, patience: Patience) -> None:
        """Until something has come, or is known to be wrong."""
        receiver = self._receiver
        if receiver.error is not None:
            raise receiver.error
        if receiver.was_full:
            receiver.was_full = False
            receiver.window.ran_dry()
        receiver.is_wanted = True
        try:
            await receiver.ask(patience.left)
            await self._news.wait(patience.most(_LOOK_SECONDS))
        finally:
            receiver.is_wanted = False

    async def _confirm(self, patience: Patience) -> None:
        """After a long pause of this process nobody knows whether what lies here is still ours: asks the broker."""
        if patience.is_over:
            raise patience.error()
        self._leases.make_due()
        await self._settler.pump(is_urgent=True, timeout=patience.left)
        await self._news.wait(patience.most(_LOOK_SECONDS))

    def _on_refused(self, error: QuiverError) -> None:
        self._errors.append(error)
        self._shelf.clear_counter()
        self._news.set()

    async def _learn_ordering(self, timeout: float | None) -> None:
        """A group that is there already has its ordering, whether or not it was named here."""
        if self._options.ordering is None:
            with contextlib.suppress(GroupNotFound):
                answer = (await self._link.call(DescribeGroup(self._options.group), timeout=timeout)).answer
                if isinstance(answer, GroupDescription):
                    self._picker.is_ordered = answer.settings.get("ordering") == "key"
        self._settler.is_ordered = self._picker.is_ordered
