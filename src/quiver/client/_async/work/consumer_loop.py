"""The background half of a consumer: acks while a handler runs, renewals, requests for more, giving back."""

import math
from typing import Any

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection
from quiver.client._async.work.receiver import AsyncReceiver
from quiver.client._async.work.settler import AsyncSettler
from quiver.client._backend_async import Lock, Signal, Task, sleep
from quiver.client.work.leases import Leases
from quiver.client.work.prefetch_buffer import PrefetchBuffer
from quiver.client.work.settlement import Decision, Span
from quiver.model.settlement import NACK

_TICK_SECONDS = 0.002
"""How long acks gather while a handler runs."""
_LOOK_SECONDS = 5.0
_END_SECONDS = 5.0
"""How long the end of a request, or of the task, is waited for."""


class AsyncConsumerLoop:
    """`taking` is held by whoever takes messages from the buffer; `news` wakes it."""

    def __init__(
        self,
        broker: AsyncReconnectingConnection,
        settler: AsyncSettler,
        receiver: AsyncReceiver,
        leases: Leases,
        buffer: PrefetchBuffer[Any],
        *,
        taking: Lock,
        wake: Signal,
        news: Signal,
    ) -> None:
        self._clock = broker.clock
        self._settler, self._receiver, self._leases, self._buffer = settler, receiver, leases, buffer
        self._taking, self._wake, self._news = taking, wake, news
        self._task: Task | None = None
        self._sleeps_until = 0.0
        self._has_returned = False
        self._is_over = False

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        self._task = Task(self._keep, "quiver-work")

    def note_news(self) -> None:
        """Messages have come, or will not."""
        self._news.set()
        self._wake.set()

    def note_progress(self) -> None:
        """Something was settled or renewed."""
        self._news.set()
        if self._settler.decided or self._leases.renew_at < self._sleeps_until:
            self._wake.set()

    def give_back(self, spans: list[Span]) -> None:
        """Others get these messages at once, and the delivery does not count."""
        if spans:
            self._settler.decide(Decision(NACK, spans, delay_ms=0, is_counted=False, on_done=_ignore))

    async def return_buffered(self) -> None:
        """Gives back what was not handed out; no request is left that would get it again."""
        async with self._taking:
            await self._receiver.pause(_END_SECONDS)
            self.give_back(self._buffer.drain())
            await self._settler.pump(is_urgent=True)

    async def flush(self, timeout: float) -> None:
        """Waits until everything that was decided is answered."""
        deadline = self._clock.monotonic() + timeout
        while not self._settler.is_idle:
            self._news.clear()
            await self._settler.pump()
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._settler.is_idle:
                return
            await self._news.wait(min(left, _TICK_SECONDS * 10))

    async def end(self) -> None:
        self._is_over = True
        self._wake.set()
        if self._task is not None:
            await self._task.join(_END_SECONDS)
            self._task.cancel()

    async def _keep(self) -> None:
        settler, receiver = self._settler, self._receiver
        while not self._is_over:
            settler.is_asleep = True
            now = self._clock.monotonic()
            self._sleeps_until = min(settler.due_at(), receiver.due_at(), self._stale_at(), now + _LOOK_SECONDS)
            await self._wake.wait(max(0.0, self._sleeps_until - now))
            settler.is_asleep = False
            self._wake.clear()
            await sleep(_TICK_SECONDS)
            settler.check_silence()
            receiver.check_silence()
            await settler.pump()
            if receiver.is_stopped:
                await self._return_buffered_once()
            elif receiver.is_begun:
                await self._leave_to_others()
                await receiver.ask()

    async def _return_buffered_once(self) -> None:
        if not self._has_returned:
            self._has_returned = True
            await self.return_buffered()

    def _stale_at(self) -> float:
        return math.inf if self._receiver.window.is_fixed else self._buffer.stale_at()

    async def _leave_to_others(self) -> None:
        """What has waited for long behind a handler, and would now be renewed, is for whoever has time for it."""
        if self._clock.monotonic() >= self._stale_at() and not self._taking.locked():
            self._receiver.window.shrink_to_floor()
            await self.return_buffered()


def _ignore(decision: Decision) -> None:
    """What cannot be given back is no longer ours anyway."""
