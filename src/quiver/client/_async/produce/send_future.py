"""Futures: what a producer returns for messages that are being sent."""

from collections.abc import Callable
from typing import Any

import msgspec

from quiver.client._backend_async import Waiter, monotonic
from quiver.client.connection.fork import current_pid
from quiver.client.produce.batches.send_outcome import SendOutcome, fresh
from quiver.client.produce.published import Published, Span
from quiver.model.errors import ForkRefused, QuiverError, RequestTimeout
from quiver.model.times import Duration, wait_seconds


class AsyncSendFuture(msgspec.Struct, gc=False, eq=False):
    """The result of one message. (Not tracked by the garbage collector: a million are made per second, and nothing
    that it refers to refers back to it.)"""

    outcome: SendOutcome
    row: int

    @property
    def done(self) -> bool:
        return self.outcome.is_known(self.row)

    async def result(self, timeout: Duration | None = None) -> Published:
        """Topic, partition and offset once the broker has stored the message; raises why it was not stored.

        Raises RequestTimeout after `timeout`: the message is still being sent.
        """
        await wait_until(lambda: self.done, self.outcome, timeout)
        result = self.outcome.result_of(self.row)
        if isinstance(result, QuiverError):
            raise fresh(result)
        assert result is not None
        return result

    def add_done_callback(self, callback: Callable[["AsyncSendFuture"], Any]) -> None:
        """Calls `callback(future)` once the outcome is known; then `result` returns immediately. It must be quick."""
        self.outcome.when_known(lambda: self.done, lambda: callback(self))


class AsyncBulkSendFuture:
    """The result of many messages of one `send_many` or `send_arrow`."""

    __slots__ = ("outcome",)

    def __init__(self, outcome: SendOutcome) -> None:
        self.outcome = outcome

    @property
    def done(self) -> bool:
        return self.outcome.is_settled

    @property
    def count(self) -> int:
        return self.outcome.count

    async def result(self, timeout: Duration | None = None) -> list[Span]:
        """Where the messages are: a span for each run that was stored together. Raises the first error."""
        await wait_until(lambda: self.done, self.outcome, timeout)
        spans = self.outcome.spans()
        if isinstance(spans, QuiverError):
            raise fresh(spans)
        return spans

    def add_done_callback(self, callback: Callable[["AsyncBulkSendFuture"], Any]) -> None:
        self.outcome.when_known(lambda: self.done, lambda: callback(self))


async def wait_until(is_known: Callable[[], bool], outcome: SendOutcome, timeout: Duration | None) -> None:
    seconds = wait_seconds(timeout)
    deadline = None if seconds is None else monotonic() + seconds
    while not is_known():
        if outcome.pid != current_pid():
            raise ForkRefused(pid=outcome.pid)
        waiter: Waiter[None] = Waiter()
        end = outcome.watchers.add_until(is_known, waiter.set)
        try:
            if is_known():
                return
            await waiter.wait(None if deadline is None else deadline - monotonic())
        except TimeoutError:
            raise RequestTimeout(seconds=seconds) from None
        finally:
            end()
