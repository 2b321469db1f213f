"""Tickets: what a producer gives for messages that are on their way."""

from collections.abc import Callable
from typing import Any

import msgspec

from quiver.client._backend_async import Waiter
from quiver.client.connection.fork import current_pid
from quiver.client.produce.published import Published, Span
from quiver.client.produce.send_outcome import Delivery, fresh
from quiver.model.errors import ForkRefused, QuiverError, RequestTimeout
from quiver.model.times import Duration, wait_seconds
from quiver.system.clock import SystemClock

_clock = SystemClock()


class AsyncTicket(msgspec.Struct, gc=False, eq=False):
    """One message on its way. (Not tracked by the garbage collector: it is made a million times a second, and
    nothing that it refers to refers back to it.)"""

    delivery: Delivery
    row: int

    @property
    def done(self) -> bool:
        return self.delivery.is_known(self.row)

    async def result(self, timeout: Duration | None = None) -> Published:
        """Topic, partition and offset once the broker has the message; raises why it has not.

        RequestTimeout after `timeout`: the message stays on its way.
        """
        await wait_until(lambda: self.done, self.delivery, timeout)
        outcome = self.delivery.outcome(self.row)
        if isinstance(outcome, QuiverError):
            raise fresh(outcome)
        assert outcome is not None
        return outcome

    def add_done_callback(self, callback: Callable[["AsyncTicket"], Any]) -> None:
        """Calls `callback(ticket)` once the outcome is known; it must be quick, `result` then returns at once."""
        self.delivery.when_known(lambda: self.done, lambda: callback(self))


class AsyncBulkTicket:
    """Many messages on their way, from one `send_many` or `send_arrow`."""

    __slots__ = ("delivery",)

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery

    @property
    def done(self) -> bool:
        return self.delivery.is_settled

    @property
    def count(self) -> int:
        return self.delivery.count

    async def result(self, timeout: Duration | None = None) -> list[Span]:
        """Where the messages are, a span for each run stored together; raises the first error there was."""
        await wait_until(lambda: self.done, self.delivery, timeout)
        outcome = self.delivery.spans()
        if isinstance(outcome, QuiverError):
            raise fresh(outcome)
        return outcome

    def add_done_callback(self, callback: Callable[["AsyncBulkTicket"], Any]) -> None:
        self.delivery.when_known(lambda: self.done, lambda: callback(self))


async def wait_until(is_known: Callable[[], bool], delivery: Delivery, timeout: Duration | None) -> None:
    seconds = wait_seconds(timeout)
    deadline = None if seconds is None else _clock.monotonic() + seconds
    while not is_known():
        if delivery.pid != current_pid():
            raise ForkRefused(pid=delivery.pid)
        waiter: Waiter[None] = Waiter()
        delivery.watchers.add(waiter.set)
        if is_known():
            return
        try:
            await waiter.wait(None if deadline is None else deadline - _clock.monotonic())
        except TimeoutError:
            raise RequestTimeout(seconds=seconds) from None
