"""Takes jobs from the prefetch buffer: opened, and only those that this consumer still has leased."""

from quiver.client._async.work.consumer_state import AsyncConsumerState
from quiver.client._async.work.opened_run import AsyncOpenedRun, jobs_of
from quiver.client._async.work.settlers import AsyncSettlers
from quiver.client.work.held_run import HeldRun
from quiver.client.work.prefetch_buffer import PrefetchBuffer, Slice
from quiver.client.work.window import PrefetchWindow
from quiver.model.errors import QuiverError


class AsyncJobSelector:
    def __init__(self, state: AsyncConsumerState, settlers: AsyncSettlers, window: PrefetchWindow) -> None:
        self._state = state
        self._buffer: PrefetchBuffer[AsyncOpenedRun] = state.buffer
        self._settlers = settlers
        self._clock = state.broker.clock
        self._window = window

    def take(self, limit: int) -> Slice[AsyncOpenedRun] | None:
        """Up to `limit` rows of the run whose turn it is. Raises CorruptData if its bytes are damaged."""
        clock, buffer = self._clock, self._buffer
        while True:
            taken = buffer.take(1 if buffer.has_stopped_keys else limit, clock.now_ms())
            if taken is None:
                return None
            buffered = taken.buffered
            if buffered.content is None:
                self._window.note_wait(clock.monotonic() - buffered.arrived_at)
                buffered.content = self._open(buffered.run)
            if buffered.run.lost is None and not buffer.has_stopped_keys:
                return taken
            if taken.last - taken.first > 1:
                buffer.give_back(taken)
                limit = 1
            elif self._is_ours(taken):
                return taken
            else:
                buffer.hand_out(taken)

    def may_be_expired(self, taken: Slice[AsyncOpenedRun]) -> bool:
        """Whether the lease should have ended by now: then only the broker knows whose it is."""
        return self._clock.monotonic() >= taken.buffered.run.expires_at

    def _open(self, run: HeldRun) -> AsyncOpenedRun:
        try:
            ordered = self._buffer if self._state.is_ordered else None
            return AsyncOpenedRun(run, self._state.config.limits, self._settlers.of(run), ordered)
        except QuiverError:
            self._buffer.drop(run)
            self._settlers.of(run).leases.drop(run)
            raise

    def _is_ours(self, taken: Slice[AsyncOpenedRun]) -> bool:
        """Whether a row is still to be handed out; if not, nothing has to be done with it."""
        run = taken.buffered.run
        job = jobs_of(taken)[0]
        if run.lost is not None and job.offset in run.lost:
            return False
        if job.key is not None and self._buffer.is_stopped(run.lease, job.key):
            job.forget()
            return False
        return True
