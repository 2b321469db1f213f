"""Lanes in the order of an offset of theirs. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from quiver.delivery.lanes_lane import NOTHING, Lane

_MOST = 512


class LaneIndex:
    """Every offset at most once. Sorted lists in blocks, so that a change moves a few hundred places and no more."""

    __slots__ = ("_firsts", "_lanes", "_offsets")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        """The first offset of each block, or one before it."""
        self._offsets: list[list[int]] = []
        self._lanes: list[list[Lane]] = []

    def add(self, offset: int, lane: Lane) -> None:
        if not self._firsts:
            self._firsts, self._offsets, self._lanes = [offset], [[offset]], [[lane]]
            return
        at = max(0, bisect_right(self._firsts, offset) - 1)
        offsets = self._offsets[at]
        place = len(offsets) if offset > offsets[-1] else bisect_left(offsets, offset)
        offsets.insert(place, offset)
        self._lanes[at].insert(place, lane)
        if offset < self._firsts[at]:
            self._firsts[at] = offset
        if len(offsets) > _MOST:
            self._divide(at, _MOST if place == _MOST else _MOST // 2)

    def remove(self, offset: int) -> None:
        """It must be there."""
        at = bisect_right(self._firsts, offset) - 1
        offsets = self._offsets[at]
        place = bisect_left(offsets, offset)
        del offsets[place], self._lanes[at][place]
        if not offsets:
            del self._firsts[at], self._offsets[at], self._lanes[at]

    @property
    def lowest(self) -> int:
        """NOTHING when there is no lane."""
        return self._offsets[0][0] if self._firsts else NOTHING

    @property
    def first(self) -> Lane | None:
        return self._lanes[0][0] if self._firsts else None

    def __iter__(self) -> Iterator[Lane]:
        """In order. There must be no change meanwhile."""
        for block in self._lanes:
            yield from block

    def _divide(self, at: int, place: int) -> None:
        """A block that grows at its end leaves a full one behind, any other is halved."""
        offsets, lanes = self._offsets[at], self._lanes[at]
        self._firsts.insert(at + 1, offsets[place])
        self._offsets.insert(at + 1, offsets[place:])
        self._lanes.insert(at + 1, lanes[place:])
        del offsets[place:], lanes[place:]
