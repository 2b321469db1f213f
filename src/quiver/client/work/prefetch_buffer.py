"""What a consumer has received and not yet handed out: levels in fair turns, runs in order. Pure but for a mutex."""

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


class Stock(Generic[_T]):
    """A run on the shelf, from a row on. `content` is whatever it was opened as."""

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


class Portion(NamedTuple, Generic[_T]):
    """Rows that were taken off the shelf."""

    stock: Stock[_T]
    first: int
    last: int
    """Behind the last row."""


class Shelf(Generic[_T]):
    """Portions are taken; one may be on the counter, from which jobs go out one at a time, by any thread.

    What is on the counter goes back on the shelf when something more urgent arrives, or somebody asks for it. Each
    job goes out once: the iterator gives it either to the consumer or to whoever takes the rest back.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._levels: list[deque[Stock[_T]]] = [deque() for _ in range(5)]
        self._ready = [0] * 5
        self._turns = DeficitRoundRobin(TopicConfig().priority_weights, starvation_ms=_STARVATION_MS)
        self._counter: tuple[Portion[_T], Iterator[object]] | None = None
        self._stopped: set[tuple[LeaseKey, bytes]] = set()
        self.size_bytes = 0

    def after_fork(self) -> None:
        """Another thread of the parent may have held it."""
        self._mutex = threading.Lock()

    @property
    def count(self) -> int:
        """Messages that were received and not handed out."""
        counter = self._counter
        return sum(self._ready) + (0 if counter is None else operator.length_hint(counter[1]))

    def stale_at(self) -> float:
        """When the run that has waited longest has done so for a third of its lease."""
        with self._mutex:
            stocks = [level[0] for level in self._levels if level]
            if self._counter is not None and operator.length_hint(self._counter[1]):
                stocks.append(self._counter[0].stock)
            return min((stock.arrived_at + stock.run.visibility_ms / 3000 for stock in stocks), default=math.inf)

    def put(self, runs: Iterable[HeldRun], now: float) -> None:
        with self._mutex:
            for run in runs:
                self._levels[run.level].append(Stock(run, now))
                self._ready[run.level] += run.count
                self.size_bytes += run.size_bytes
                if self._counter is not None and run.level < self._counter[0].stock.run.level:
                    self._clear_counter()

    def take(self, limit: int, now_ms: int) -> Portion[_T] | None:
        """Up to `limit` rows of the run whose turn it is."""
        with self._mutex:
            self._clear_counter()
            turn = self._turns.next(self._ready, now_ms, limit)
            if turn is None:
                return None
            level, count = turn
            stock = self._levels[level][0]
            taken = min(count, stock.left)
            self._turns.give_back(level, count - taken)
            portion = Portion(stock, stock.row, stock.row + taken)
            self._ready[level] -= taken
            stock.row += taken
            if not stock.left:
                self._unlist(stock)
            return portion

    def lay_out(self, portion: Portion[_T], jobs: Iterator[object]) -> None:
        """Puts a portion on the counter; `jobs` gives out each of its rows."""
        with self._mutex:
            self._counter = (portion, jobs)

    def clear_counter(self) -> None:
        """What has not gone out yet goes back to its place."""
        with self._mutex:
            self._clear_counter()

    def give_back(self, portion: Portion[_T]) -> None:
        """Puts back a portion of which nothing has gone out."""
        with self._mutex:
            self._put_back(portion, portion.last - portion.first)

    def drop(self, run: HeldRun) -> None:
        """Takes off what is left of a run."""
        with self._mutex:
            level = self._levels[run.level]
            for stock in [stock for stock in level if stock.run is run]:
                level.remove(stock)
                self._ready[run.level] -= stock.left
                self.size_bytes -= run.size_bytes

    def stop_key(self, lease: LeaseKey, key: bytes) -> None:
        """The rest of a key's run is not handed out: the broker has taken it back with the message in front of it."""
        with self._mutex:
            self._clear_counter()
            listed = {stock.run.lease for level in self._levels for stock in level}
            self._stopped = {(known, name) for known, name in self._stopped | {(lease, key)} if known in listed}

    @property
    def has_stopped_keys(self) -> bool:
        return bool(self._stopped)

    def is_stopped(self, lease: LeaseKey, key: bytes | None) -> bool:
        return (lease, key) in self._stopped

    def empty(self) -> list[Span]:
        """Everything that has not gone out, which is gone from here now."""
        with self._mutex:
            self._clear_counter()
            spans = [
                (stock.run, start, end)
                for level in self._levels
                for stock in level
                for start, end in ranges_of(stock.run.offsets()[stock.row :])
            ]
            for level in self._levels:
                level.clear()
            self._ready = [0] * 5
            self.size_bytes = 0
        return spans

    def _clear_counter(self) -> None:
        if self._counter is not None:
            (portion, jobs), self._counter = self._counter, None
            self._put_back(portion, len(list(jobs)))

    def _put_back(self, portion: Portion[_T], count: int) -> None:
        stock = portion.stock
        if count:
            self._ready[stock.run.level] += count
            stock.row -= count
            if not stock.is_listed:
                stock.is_listed = True
                self._levels[stock.run.level].appendleft(stock)
                self.size_bytes += stock.run.size_bytes

    def _unlist(self, stock: Stock[_T]) -> None:
        self._levels[stock.run.level].popleft()
        stock.is_listed = False
        self.size_bytes -= stock.run.size_bytes
