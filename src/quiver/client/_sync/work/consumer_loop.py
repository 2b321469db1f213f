# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The background half of a consumer: sends acks while a handler runs, renews leases, receives, gives back."""

import math

from quiver.client._backend_sync import Task, sleep
from quiver.client._sync.work.consumer_state import ConsumerState
from quiver.client._sync.work.receiver import Receiver
from quiver.client._sync.work.settlers import Settlers
from quiver.client.work.settlement import Decision, Span
from quiver.model.settlement import NACK

_TICK_SECONDS = 0.002
"""How long acks are gathered while a handler runs."""
_LOOK_SECONDS = 5.0
_END_SECONDS = 5.0
"""How long to wait for the end of a request or of the task."""


class ConsumerLoop:
    def __init__(self, state: ConsumerState, settlers: Settlers, receiver: Receiver) -> None:
        self._state = state
        self._settlers = settlers
        self._receiver = receiver
        self._clock = state.broker.clock
        self._buffer = state.buffer
        self._task: Task | None = None
        self._has_returned = False
        self._is_over = False

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        self._task = Task(self._run, "quiver-work")

    def give_back(self, spans: list[Span]) -> None:
        """Gives messages back: they become available immediately, and the delivery does not count."""
        if spans:
            self._settlers.decide(Decision(NACK, spans, delay_ms=0, is_counted=False, on_done=_ignore))

    def return_buffered(self) -> None:
        """Gives back what was not handed out; no request that could receive it again is left."""
        with self._state.taking:
            self._receiver.pause(_END_SECONDS)
            self.give_back(self._buffer.drain())
            self._settlers.pump(is_urgent=True)

    def flush(self, timeout: float) -> None:
        """Waits for the responses to all decisions."""
        deadline = self._clock.monotonic() + timeout
        while not self._settlers.is_idle:
            self._state.news.clear()
            self._settlers.pump()
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._settlers.is_idle:
                return
            self._state.news.wait(min(left, _TICK_SECONDS * 10))

    def end(self) -> None:
        self._is_over = True
        self._state.loop_wake.set()
        if self._task is not None:
            self._task.join(_END_SECONDS)
            self._task.cancel()

    def _run(self) -> None:
        state, settlers, receiver = self._state, self._settlers, self._receiver
        while not self._is_over:
            settlers.note_loop(is_asleep=True)
            now = self._clock.monotonic()
            until = min(settlers.due_at(math.inf), receiver.due_at(), self._stale_at(), now + _LOOK_SECONDS)
            state.loop_sleeps_until = until
            state.loop_wake.wait(max(0.0, until - now))
            settlers.note_loop(is_asleep=False)
            state.loop_wake.clear()
            sleep(_TICK_SECONDS)
            settlers.check_answers()
            receiver.check_answers()
            settlers.pump()
            if receiver.is_stopped:
                self._return_buffered_once()
            elif receiver.is_begun:
                self._return_stale()
                receiver.ask()

    def _return_buffered_once(self) -> None:
        if not self._has_returned:
            self._has_returned = True
            self.return_buffered()

    def _stale_at(self) -> float:
        return math.inf if self._receiver.window.is_fixed else self._buffer.stale_at()

    def _return_stale(self) -> None:
        """Gives back messages that have waited long for a handler, instead of renewing them, so that others get
        them."""
        if self._clock.monotonic() >= self._stale_at() and not self._state.taking.locked():
            self._receiver.window.shrink_to_floor()
            self.return_buffered()


def _ignore(decision: Decision) -> None:
    """What cannot be given back is no longer leased to this consumer."""
