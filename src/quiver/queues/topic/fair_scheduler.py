"""Whose turn it is: among levels by weight, among the partitions of a level one after the other. Pure."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from quiver.queues.state.port import LEVELS
from quiver.structures.deficit_round_robin import DeficitRoundRobin

ALL_LEVELS = (1 << LEVELS) - 1


class Pick(NamedTuple):
    level: int
    partition: int
    want: int
    """To be taken there, if there are so many."""


class FairScheduler:
    """Knows which partitions may have something in which level. Whoever calls `pick` says then what came of it."""

    def __init__(self) -> None:
        self._rings: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(LEVELS)]
        self._settings: tuple[tuple[int, ...], int] = ((), 0)
        self._levels = DeficitRoundRobin([1] * LEVELS, starvation_ms=1)
        self._is_shared = False

    def configure(self, weights: Sequence[int], starvation_ms: int) -> None:
        """Shares begin again when they change."""
        settings = (tuple(weights), starvation_ms)
        if settings != self._settings:
            self._settings = settings
            self._levels = DeficitRoundRobin(weights, starvation_ms=starvation_ms)

    @property
    def any(self) -> bool:
        return any(self._rings)

    def add(self, level: int, partition: int) -> None:
        """The partition may have something in the level: it stays in its place, or goes to the end."""
        self._rings[level][partition] = None

    def pick(self, want: int, now_ms: int, levels: int = ALL_LEVELS) -> Pick | None:
        """The next to be asked, among the levels whose bits are set; a single one is not charged for it."""
        if want < 1:
            return None
        ready = [want if ring and levels >> level & 1 else 0 for level, ring in enumerate(self._rings)]
        self._is_shared = bool(levels & (levels - 1))
        if self._is_shared:
            choice = self._levels.next(ready, now_ms, want)
        else:
            choice = next(((level, count) for level, count in enumerate(ready) if count), None)
        if choice is None:
            return None
        level, count = choice
        return Pick(level, next(iter(self._rings[level])), count)

    def served(self, pick: Pick, count: int, *, has_more: bool) -> None:
        """So many were taken of the last pick. Without more the partition waits until it is added again."""
        if self._is_shared and count < pick.want:
            self._levels.give_back(pick.level, pick.want - count)
        ring = self._rings[pick.level]
        if not has_more:
            ring.pop(pick.partition, None)
        elif pick.partition in ring:
            ring.move_to_end(pick.partition)
