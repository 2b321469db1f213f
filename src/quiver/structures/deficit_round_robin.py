"""A fair choice among levels by weight, with a bound on how long a level waits."""

from collections.abc import Sequence


class DeficitRoundRobin:
    """Levels are numbered from 0. The caller asks `next` and then serves exactly what it returns.

    - While several levels are ready, each gets its weight's part of what is served, whatever the batch sizes.
    - A level that is not ready saves nothing: it loses its deficit. A level alone gets all it can use.
    - A level that was ready but not served for `starvation_ms` comes next, the one that waits longest first. That is
      charged to it, as far as one round goes.
    - Inside a level nothing is chosen: `next` returns a number, and the level's own order says which.

    One round serves `quantum` times each weight: a larger one makes larger batches, a smaller one a finer mix.
    """

    __slots__ = ("_at", "_charged", "_deficits", "_quanta", "_starvation_ms", "_waiting_since_ms")

    def __init__(self, weights: Sequence[int], *, starvation_ms: int, quantum: int = 1) -> None:
        if not weights or min(weights) < 1 or quantum < 1 or starvation_ms < 1:
            raise ValueError("weights, quantum and starvation_ms must be at least 1, and there must be a weight")
        self._quanta = [weight * quantum for weight in weights]
        self._deficits = [0] * len(weights)
        self._waiting_since_ms: list[int | None] = [None] * len(weights)
        self._starvation_ms = starvation_ms
        self._at = len(weights) - 1
        self._charged = 0

    def next(self, ready: Sequence[int], now_ms: int, limit: int | None = None) -> tuple[int, int] | None:
        """The level to serve now and how many, given how many are ready in each; None when none is.

        At least 1, at most what is ready there, and at most `limit` if given: a limit below 1 gets None.
        """
        if len(ready) != len(self._quanta):
            raise ValueError(f"{len(ready)} levels given for {len(self._quanta)} weights")
        levels = self._note_ready(ready, now_ms)
        if not levels or (limit is not None and limit < 1):
            return None
        if len(levels) == 1:
            level, count = levels[0], ready[levels[0]]
            self._deficits[level], self._at = 0, level
        else:
            level, count = self._starving(levels, ready, now_ms) or self._in_turn(ready)
        if limit is not None and count > limit:
            count = limit
        self._charged = 0 if len(levels) == 1 else min(count, self._deficits[level] + self._quanta[level])
        self._deficits[level] -= self._charged
        self._waiting_since_ms[level] = now_ms
        return level, count

    def give_back(self, level: int, count: int) -> None:
        """`count` of the number that the last `next` returned for this level could not be served."""
        returned = min(count, self._charged)
        self._charged -= returned
        self._deficits[level] += returned

    def _note_ready(self, ready: Sequence[int], now_ms: int) -> list[int]:
        """The levels that are ready. A clock that went back starts their waiting again."""
        levels = []
        waiting = self._waiting_since_ms
        for level, count in enumerate(ready):
            if count > 0:
                levels.append(level)
                since = waiting[level]
                if since is None or since > now_ms:
                    waiting[level] = now_ms
            else:
                waiting[level] = None
                self._deficits[level] = 0
        return levels

    def _starving(self, levels: list[int], ready: Sequence[int], now_ms: int) -> tuple[int, int] | None:
        level = min(levels, key=self._since)
        if now_ms - self._since(level) < self._starvation_ms:
            return None
        return level, min(ready[level], self._quanta[level])

    def _since(self, level: int) -> int:
        since = self._waiting_since_ms[level]
        assert since is not None, "only asked of ready levels"
        return since

    def _in_turn(self, ready: Sequence[int]) -> tuple[int, int]:
        """The level whose turn it is: the same as before while it has something left, then the next that is ready.

        A deficit is never below minus one quantum, so a level in debt has its turn after two rounds at most.
        """
        deficits = self._deficits
        while not (ready[self._at] > 0 and deficits[self._at] > 0):
            self._at = (self._at + 1) % len(deficits)
            if ready[self._at] > 0:
                deficits[self._at] += self._quanta[self._at]
        return self._at, min(ready[self._at], deficits[self._at])
