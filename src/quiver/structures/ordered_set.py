"""A set that is iterated in the order in which its members were added.

The order of a plain set of objects depends on their addresses in memory, so it differs from run to run. Where that
order decides what happens next, the simulator could not repeat a run.
"""

from typing import TypeVar

T = TypeVar("T")


class OrderedSet(dict[T, None]):
    __slots__ = ()

    def add(self, member: T) -> None:
        """An existing member keeps its place."""
        self[member] = None

    def discard(self, member: T) -> None:
        self.pop(member, None)
