"""Writes delayed messages to the schedule log, and schedules them.

A message of a transaction is scheduled when that is committed. As with other readers, everything after the beginning
of an open transaction waits until it ends.
"""

import asyncio
from collections import deque
from typing import TypeVar

import numpy as np

from quiver.delays.due_clock import DueClock
from quiver.delays.partition.schedule_log import FRAME_BYTES, ScheduledFrame, due_times, transaction_of
from quiver.delays.state import DelayState
from quiver.model.errors import FrameTooLarge, InvalidRequest
from quiver.model.limits import LONGEST_DELAY_MS
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.partition.partition import Appended, Frame, Partition
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame
from quiver.structures.ordered_pairs import Integers
from quiver.system.clock import Clock

T = TypeVar("T")

_MOST_FRAME_BYTES = 4 * FRAME_BYTES


class Intake:
    """Messages are scheduled when they are written. The due clock is told of one that is due before all others."""

    def __init__(
        self, place: TopicPartition, schedule: Partition, state: DelayState, *, clock: Clock, due_clock: DueClock
    ) -> None:
        self._place = place
        self._schedule = schedule
        self._state = state
        self._clock = clock
        self._due_clock = due_clock
        self._fresh: list[tuple[int, NewMessage]] = []
        """Single messages that are written and not scheduled yet."""
        self._waiting: deque[ScheduledFrame] = deque()
        """After the beginning of an open transaction, in the order of the log."""
        schedule.committed.watch(self._schedule_stable)

    def frame(self, frame: Frame, header: FrameHeader) -> "asyncio.Future[Appended]":
        """Queues a checked frame; the future is done when it is as durable as the topic requires."""
        if header.record_count > 1 and header.uncompressed_length > _MOST_FRAME_BYTES:
            raise FrameTooLarge(
                f"a frame of {header.uncompressed_length} bytes with {header.record_count} delayed messages is too "
                f"large; send them in frames of {FRAME_BYTES}"
            )
        times_ms = due_times(open_frame(frame, verify=False))
        self._check_time(int(times_ms.max()))
        written = self._schedule.append(frame, header)
        result: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        # The messages are scheduled even if the caller stops waiting.
        written.add_done_callback(lambda _: self._frame_written(written, times_ms, header, result))
        return result

    def message(self, message: NewMessage) -> "asyncio.Future[Appended]":
        """Queues a single message, which shares a frame with others; the future returns its id."""
        self._check_time(message.deliver_at_ms or 0)
        written = self._schedule.append_message(message)
        result: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        written.add_done_callback(lambda _: self._message_written(written, message, result))
        return result

    def waits_from(self) -> int | None:
        """The offset of the first message that is written and not scheduled yet; None: there is none."""
        return int(self._waiting[0].ids[0]) if self._waiting else None

    async def finish(self) -> None:
        """Returns when everything that was queued is written, and scheduled if it counts."""
        await self._schedule.drain()
        await asyncio.sleep(0)
        self._schedule_fresh()

    def let_go(self) -> None:
        """The schedule log does not refer to it any more."""
        self._schedule.committed.unwatch(self._schedule_stable)

    def _check_time(self, time_ms: int) -> None:
        if time_ms > self._clock.now_ms() + LONGEST_DELAY_MS:
            raise InvalidRequest(problem="a message can be delayed by 10 years at most")

    def _frame_written(
        self,
        written: "asyncio.Future[Appended]",
        times_ms: Integers,
        header: FrameHeader,
        result: "asyncio.Future[Appended]",
    ) -> None:
        error = written.exception()
        if error is not None:
            _fail(result, error)
            return
        appended = written.result()
        if not appended.duplicate:
            self._schedule_fresh()
            if known := [duplicate.row for duplicate in appended.duplicates]:
                times_ms = np.delete(times_ms, known)
            ids = np.arange(appended.base_offset, appended.base_offset + len(times_ms))
            self.add(ScheduledFrame(ids, times_ms, header.priority, transaction_of(header)))
        if not result.done():
            is_elsewhere = len(appended.duplicates) == header.record_count and not appended.delayed
            result.set_result(appended if is_elsewhere else appended._replace(delayed=True))

    def _message_written(
        self, written: "asyncio.Future[Appended]", message: NewMessage, result: "asyncio.Future[Appended]"
    ) -> None:
        error = written.exception()
        if error is not None:
            _fail(result, error)
            return
        appended = written.result()
        if appended.duplicate:
            if not result.done():
                result.set_result(appended)
            return
        if not self._fresh:  # messages of a frame follow each other, and are scheduled before any caller is told
            asyncio.get_running_loop().call_soon(self._schedule_fresh)
        self._fresh.append((appended.base_offset, message))
        if not result.done():
            result.set_result(appended._replace(delayed=True))

    def _schedule_fresh(self) -> None:
        fresh, self._fresh = self._fresh, []
        start = 0
        for end in range(1, len(fresh) + 1):
            priority = fresh[start][1].priority
            if end == len(fresh) or fresh[end][1].priority != priority:
                ids = np.array([id for id, _ in fresh[start:end]], np.int64)
                times_ms = np.array([message.deliver_at_ms or 0 for _, message in fresh[start:end]], np.int64)
                self.add(ScheduledFrame(ids, times_ms, priority))
                start = end

    def add(self, frame: ScheduledFrame) -> None:
        """Messages as they are in the schedule log, in its order: they are scheduled as soon as they are
        committed."""
        self._waiting.append(frame)
        self._schedule_stable()

    def _schedule_stable(self) -> None:
        if not self._waiting:
            return
        before, stable = self._state.pending.next_ms(), self._schedule.committed.last_stable
        while self._waiting and self._waiting[0].ids[0] < stable:
            ids, times_ms, priority, transaction = self._waiting.popleft()
            if self._schedule.tables.transactions.is_aborted_at(transaction, int(ids[0])):
                self._state.pass_over(int(ids[-1]) + 1)
            else:
                self._state.schedule(ids, times_ms, priority)
        after = self._state.pending.next_ms()
        if after is not None and (before is None or after < before):
            self._due_clock.note(self._place)


def _fail(result: "asyncio.Future[T]", error: BaseException) -> None:
    if not result.done():
        result.set_exception(error)
        result.exception()  # the caller may be gone
