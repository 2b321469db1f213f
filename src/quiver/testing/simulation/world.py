"""Virtual time, and what happens when: one order of events for all loops, decided by one seed."""

import gc
import heapq
import logging
import random
import sys
import warnings
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol

from quiver.system.randomness import seeded

TURN_SECONDS = 20e-6
"""What one turn of a loop takes. Time passes while loops are busy, so nobody can spin until a deadline."""


class Runnable(Protocol):
    """Something that runs in turns: a loop."""

    def take_turn(self) -> None: ...

    def discard(self) -> None:
        """Frees what it holds, when all is over."""


class World:
    """Runs events in the order of their times, and busy loops in an order that the seed chooses.

    `note` writes into the trace. Two runs of one seed have the same `trace_hash`, or something is not simulated.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.chance = seeded(f"{seed}/world")
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._ready: list[Runnable] = []
        self._trace = blake2b(digest_size=16)
        self.trace_lines: list[str] | None = None
        """The trace itself, if somebody wants to read it."""
        self.turns = 0
        self.loops: list[Runnable] = []
        self.sockets: dict[int, Any] = {}
        """By their numbers, for the loops."""

    def seeded(self, name: str) -> random.Random:
        """Separate randomness for a part: what one part draws does not change what the others get."""
        return seeded(f"{self.seed}/{name}")

    def note(self, *what: object) -> None:
        line = f"{self.now:.6f} {' '.join(map(str, what))}\n"
        self._trace.update(line.encode())
        if self.trace_lines is not None:
            self.trace_lines.append(line)

    @property
    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        """Calls it at a time, after what was scheduled for that time before."""
        self._sequence += 1
        heapq.heappush(self._events, (when, self._sequence, call, args))

    def later(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        self.at(self.now + seconds, call, *args)

    def is_ready(self, loop: Runnable) -> None:
        """The loop has something to do now. Called once until its turn."""
        self._ready.append(loop)

    def discard(self) -> None:
        """Frees everything silently: unfinished tasks would complain that they never ended."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        logging.disable()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for loop in self.loops:
                    loop.discard()
                self._events.clear()
                gc.collect()
        finally:
            logging.disable(logging.NOTSET)
            sys.unraisablehook = hook

    def run(self, until: Callable[[], bool], *, at_most_seconds: float) -> bool:
        """Runs until a condition holds, nothing happens any more, or the time is over. Returns whether it holds."""
        deadline = self.now + at_most_seconds
        events, ready = self._events, self._ready
        while not until():
            while events and events[0][0] <= self.now:
                _, _, call, args = heapq.heappop(events)
                call(*args)
            if ready:
                loop = ready.pop(self.chance.randrange(len(ready)) if len(ready) > 1 else 0)
                self.turns += 1
                self.now += TURN_SECONDS
                loop.take_turn()
            elif events:
                self.now = max(self.now, events[0][0])
            else:
                return until()
            if self.now >= deadline:
                return until()
        return True
