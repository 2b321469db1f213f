"""A set that is looped over in the order in which its members came.

The order of a plain set of objects depends on where they lie in memory, so it differs from run to run. Where that
order decides what happens next, the simulator could not repeat a run.
"""

from typing import TypeVar

T = TypeVar("T")


class OrderedSet(dict[T, None]):
    __slots__ = ()

    def add(self, member: T) -> None:
        """One that is there keeps its place."""
        self[member] = None

    def discard(self, member: T) -> None:
        self.pop(member, None)
