"""Messages counted by priority, most urgent first."""

from collections.abc import Iterable, Sequence

PRIORITIES = 5
Counts = tuple[int, ...]
NO_MESSAGES: Counts = (0,) * PRIORITIES
ANY_PRIORITY = (1 << PRIORITIES) - 1


def among(counts: Iterable[int], priorities: int) -> int:
    """How many are of the given priorities, a bit each."""
    return sum([count for priority, count in enumerate(counts) if priorities >> priority & 1])


def present(counts: Sequence[int]) -> int:
    """The priorities of which there are any, a bit each."""
    return sum([1 << priority for priority, count in enumerate(counts) if count])
