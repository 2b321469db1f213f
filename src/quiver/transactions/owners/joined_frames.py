"""Frames of transactions whose coordinator is another worker.

The first frame of a transaction in a log joins at the coordinator before it is written. Frames behind it wait, in
order, for the same producer and log only; then nothing has to be asked until the transaction ends.
"""

import asyncio
from collections import deque
from functools import partial
from typing import NamedTuple

from quiver.model.errors import Overloaded, ShuttingDown, TransactionConflict
from quiver.partition.partition import Appended
from quiver.records.header import COLUMN_DELIVER_AT, FrameHeader
from quiver.transactions.events import Participant
from quiver.transactions.owners.frames import Append, TransactionFrames
from quiver.transactions.owners.port import OpenInLog, TransactionCoordinator

_WAITING_FRAMES = 256
"""For one log: producers have at most 16 in flight."""
_Key = tuple[int, int]
"""Producer id and epoch."""


class _Waiting(NamedTuple):
    sequence: int
    append: Append
    future: "asyncio.Future[Appended]"


class _Joined:
    """A transaction as this worker knows it."""

    def __init__(self, id: str) -> None:
        self.frames = TransactionFrames(id)
        self.logs: set[Participant] = set()
        self.waiting: dict[Participant, deque[_Waiting]] = {}
        self.left_out: dict[Participant, list[asyncio.Future[Appended]]] = {}
        """Frames that were waiting to join when the transaction ended: they are not written any more."""
        self.is_ending = False


class JoinedFrames:
    def __init__(self) -> None:
        self.coordinator: TransactionCoordinator
        """Set before the first frame."""
        self._transactions: dict[_Key, _Joined] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._term = 0
        """Of the coordinator: in a new one, all logs join again."""

    def write(self, header: FrameHeader, topic_id: int, partition: int, append: Append) -> "asyncio.Future[Appended]":
        key = header.producer_id, header.producer_epoch
        participant = Participant(topic_id, partition, bool(header.columns & COLUMN_DELIVER_AT))
        joined = self._transactions.get(key)
        if joined is None:
            joined = self._transactions[key] = _Joined(_name(key))
        if joined.is_ending:
            raise TransactionConflict(transaction=_name(key), problem="it is about to end")
        if participant in joined.logs:
            return joined.frames.write(participant, header.base_sequence, append)
        return self._after_joining(key, joined, participant, header.base_sequence, append)

    def _after_joining(
        self, key: _Key, joined: _Joined, participant: Participant, sequence: int, append: Append
    ) -> "asyncio.Future[Appended]":
        waiting = joined.waiting.get(participant)
        if waiting is None:
            waiting = joined.waiting[participant] = deque()
            task = asyncio.get_running_loop().create_task(self._join(key, joined, participant))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(waiting) >= _WAITING_FRAMES:
            raise Overloaded(problem=f"{len(waiting)} frames of transaction {_name(key)} wait for their partition")
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        waiting.append(_Waiting(sequence, append, future))
        joined.frames.begun()
        return future

    async def _join(self, key: _Key, joined: _Joined, participant: Participant) -> None:
        error: Exception | None = None
        try:
            term = await self.coordinator.join(*key, participant)
            while term < self._term:  # the coordinator was replaced meanwhile
                term = await self.coordinator.join(*key, participant)
            self.learn(term)
        except asyncio.CancelledError:
            error = ShuttingDown()
        except Exception as problem:
            error = problem
        # No await from here on: frames that come later are written after these.
        waiting = joined.waiting.pop(participant)
        if error is None:
            joined.logs.add(participant)
        for frame in waiting:
            self._write(joined, participant, frame, error)
        for future in joined.left_out.pop(participant, ()):
            _refuse(future, error or TransactionConflict(transaction=_name(key), problem="it has ended"))
        self._forget_if_unused(key, joined)

    def _write(self, joined: _Joined, participant: Participant, frame: _Waiting, error: Exception | None) -> None:
        if error is None:
            try:
                written = joined.frames.write(participant, frame.sequence, frame.append)
                written.add_done_callback(partial(_pass_on, frame.future))
            except Exception as problem:
                error = problem
        if error is not None:
            _refuse(frame.future, error)
        joined.frames.done(participant, frame.sequence, error)

    def _forget_if_unused(self, key: _Key, joined: _Joined) -> None:
        if not (joined.logs or joined.waiting) and self._transactions.get(key) is joined:
            del self._transactions[key]

    # what the coordinator asks for

    def learn(self, term: int) -> None:
        """Transactions of an earlier term are over, or about to be: nothing more is written for them unasked."""
        if term > self._term:
            self._term = term
            for joined in self._transactions.values():
                joined.logs.clear()

    def continued(self, opened: OpenInLog) -> None:
        """After a restart of this worker: the transaction is still open, and has this log."""
        key = opened.producer_id, opened.epoch
        joined = self._transactions.setdefault(key, _Joined(_name(key)))
        joined.logs.add(opened.participant)

    def known(self) -> list[OpenInLog]:
        """What is joined: its frames may not be in the log yet."""
        return [OpenInLog(*key, log) for key, joined in self._transactions.items() for log in joined.logs]

    async def complete(self, key: _Key) -> None:
        """No more frames of the transaction are accepted; returns when all so far are written. Raises InvalidRequest
        if one is missing."""
        joined = self._transactions.get(key)
        if joined is not None:
            joined.is_ending = True
            await joined.frames.idle()
            joined.frames.check_whole()

    def reopen(self, key: _Key) -> None:
        """It does not end now."""
        joined = self._transactions.get(key)
        if joined is not None:
            joined.is_ending = False

    async def end(self, key: _Key) -> None:
        """It has ended: returns when no frame of it is on its way into a log any more. Frames that have not joined
        are left out: the coordinator, which they wait for, may be waiting for this."""
        joined = self._transactions.get(key)
        if joined is not None:
            joined.is_ending = True
            _leave_out(joined)
            await joined.frames.idle()
            if self._transactions.get(key) is joined:
                del self._transactions[key]

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _name(key: _Key) -> str:
    return f"{key[0]}:{key[1]}"


def _leave_out(joined: _Joined) -> None:
    for participant, waiting in joined.waiting.items():
        while waiting:
            frame = waiting.popleft()
            joined.left_out.setdefault(participant, []).append(frame.future)
            joined.frames.done(participant, frame.sequence, None)


def _refuse(future: "asyncio.Future[Appended]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # the sender may be gone


def _pass_on(future: "asyncio.Future[Appended]", written: "asyncio.Future[Appended]") -> None:
    if future.done() or written.cancelled():
        future.cancel()
    elif (error := written.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(written.result())
