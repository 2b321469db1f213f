"""What a consumer received and has not handed out yet: priorities take fair turns, runs keep their order.

Pure but for a mutex.
"""

import math
import operator
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from quiver.client.work.held_run import HeldRun, LeaseKey, ranges_of
from quiver.client.work.settlement import Span
from quiver.model.topic import TopicConfig
from quiver.structures.deficit_round_robin import DeficitRoundRobin

_T = TypeVar("_T")

_STARVATION_MS = 30_000


class BufferedRun(Generic[_T]):
    """A received run, and its next row to hand out. `content` is the opened run."""

    __slots__ = ("arrived_at", "content", "is_listed", "row", "run")

    def __init__(self, run: HeldRun, arrived_at: float) -> None:
        self.run = run
        self.arrived_at = arrived_at
        self.row = 0
        self.content: _T | None = None
        self.is_listed = True

    @property
    def left(self) -> int:
        return self.run.count - self.row


class Slice(NamedTuple, Generic[_T]):
    """Rows of a run that were taken from the buffer."""

    buffered: BufferedRun[_T]
    first: int
    last: int
    """The row after the last one."""


class PrefetchBuffer(Generic[_T]):
    """Runs by priority level, taken in slices, by one taker at a time.

    After `take`, `set_current` makes a slice the current one, whose jobs are handed out one at a time; `hand_out`
    says that all of it is handed out; `give_back` returns it. What was not handed out returns to the buffer by itself
    when something more urgent arrives or the slice is revoked. The iterator of the current slice yields each job
    once: to the consumer, or to the caller that returns the rest. Safe between threads.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._levels: list[deque[BufferedRun[_T]]] = [deque() for _ in range(5)]
        self._ready = [0] * 5
        self._turns = DeficitRoundRobin(TopicConfig().priority_weights, starvation_ms=_STARVATION_MS)
        self._taken: Slice[_T] | None = None
        """Of which nothing is handed out yet."""
        self._current: tuple[Slice[_T], Iterator[object]] | None = None
        self._stopped: set[tuple[LeaseKey, bytes]] = set()
        self.size_bytes = 0

    def after_fork(self) -> None:
        """Another thread of the parent may have held the mutex."""
        self._mutex = threading.Lock()

    @property
    def count(self) -> int:
        """Messages that were received and not handed out."""
        current = self._current
        return sum(self._ready) + (0 if current is None else operator.length_hint(current[1]))

    def stale_at(self) -> float:
        """When the run that has waited longest will have waited for a third of its lease."""
        with self._mutex:
            runs = [level[0] for level in self._levels if level]
            if self._current is not None and operator.length_hint(self._current[1]):
                runs.append(self._current[0].buffered)
            return min(
                (buffered.arrived_at + buffered.run.visibility_ms / 3000 for buffered in runs), default=math.inf
            )

    def add(self, runs: Iterable[HeldRun], now: float) -> None:
        with self._mutex:
            for run in runs:
                self._levels[run.level].append(BufferedRun(run, now))
                self._ready[run.level] += run.count
                self.size_bytes += run.size_bytes
                if self._current is not None and run.level < self._current[0].buffered.run.level:
                    self._return()

    def take(self, limit: int, now_ms: int) -> Slice[_T] | None:
        """Up to `limit` rows of the run whose turn it is."""
        with self._mutex:
            self._return()
            turn = self._turns.next(self._ready, now_ms, limit)
            if turn is None:
                return None
            level, count = turn
            buffered = self._levels[level][0]
            row_count = min(count, buffered.left)
            self._turns.give_back(level, count - row_count)
            taken = Slice(buffered, buffered.row, buffered.row + row_count)
            self._ready[level] -= row_count
            buffered.row += row_count
            if not buffered.left:
                self._unlist(buffered)
            self._taken = taken
            return taken

    def set_current(self, taken: Slice[_T], jobs: Iterator[object]) -> bool:
        """Makes the taken slice the current one; `jobs` yields each of its rows once. False: it was revoked, and is
        in the buffer again."""
        with self._mutex:
            if self._taken is not taken:
                return False
            self._taken, self._current = None, (taken, jobs)
            return True

    def hand_out(self, taken: Slice[_T]) -> bool:
        """All of the taken slice is handed out. False: it was revoked, and is in the buffer again."""
        with self._mutex:
            if self._taken is not taken:
                return False
            self._taken = None
            return True

    def return_all(self) -> None:
        """Puts back what was taken and not handed out."""
        with self._mutex:
            self._return()

    def give_back(self, taken: Slice[_T]) -> None:
        """Puts back the taken slice, unless it was revoked."""
        with self._mutex:
            if self._taken is taken:
                self._return()

    def drop(self, run: HeldRun) -> None:
        """Removes what is left of a run."""
        with self._mutex:
            if self._taken is not None and self._taken.buffered.run is run:
                self._taken = None
            level = self._levels[run.level]
            for buffered in [buffered for buffered in level if buffered.run is run]:
                level.remove(buffered)
                self._ready[run.level] -= buffered.left
                self.size_bytes -= run.size_bytes

    def stop_key(self, lease: LeaseKey, key: bytes) -> None:
        """The rest of a key's run is not handed out: the broker took it back with the message before it."""
        with self._mutex:
            self._return()
            listed = {buffered.run.lease for level in self._levels for buffered in level}
            self._stopped = {(known, name) for known, name in self._stopped | {(lease, key)} if known in listed}

    @property
    def has_stopped_keys(self) -> bool:
        return bool(self._stopped)

    def is_stopped(self, lease: LeaseKey, key: bytes | None) -> bool:
        return (lease, key) in self._stopped

    def drain(self) -> list[Span]:
        """Removes and returns everything that was not handed out."""
        with self._mutex:
            self._return()
            spans = [
                (buffered.run, start, end)
                for level in self._levels
                for buffered in level
                for start, end in ranges_of(buffered.run.offsets()[buffered.row :])
            ]
            for level in self._levels:
                level.clear()
            self._ready = [0] * 5
            self.size_bytes = 0
        return spans

    def _return(self) -> None:
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._put_back(taken, taken.last - taken.first)
        if self._current is not None:
            (taken, jobs), self._current = self._current, None
            self._put_back(taken, len(list(jobs)))

    def _put_back(self, taken: Slice[_T], count: int) -> None:
        buffered = taken.buffered
        if count:
            self._ready[buffered.run.level] += count
            buffered.row -= count
            if not buffered.is_listed:
                buffered.is_listed = True
                self._levels[buffered.run.level].appendleft(buffered)
                self.size_bytes += buffered.run.size_bytes

    def _unlist(self, buffered: BufferedRun[_T]) -> None:
        self._levels[buffered.run.level].popleft()
        buffered.is_listed = False
        self.size_bytes -= buffered.run.size_bytes
