"""A queue group in a partition: its state, and what the shell keeps beside it."""

import asyncio

from quiver.model.queue import Ordering
from quiver.queues.partition.pending_acks import PendingAcks
from quiver.queues.state.counters import Counters
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import LEVELS, GroupState
from quiver.queues.state.unordered.state import UnorderedState


class QueueGroup:
    def __init__(self, id: int, *, ordering: Ordering, start: int, in_offset_order: bool, version: int = 0) -> None:
        self.id = id
        self.ordering: Ordering = ordering
        self.in_offset_order = in_offset_order
        self.state = _new_state(id, ordering, start, in_offset_order)
        self.version = version
        """Of the group's commits in this partition, the last that the state has followed: see `Committed.version`."""
        self.pending_acks = PendingAcks()
        self.counters = Counters()
        self.reading = asyncio.Lock()
        self.log_start = 0
        """Everything below is known to be gone from the log."""
        self.known_damage: set[int] = set()
        """Where the log goes on behind damage that was counted."""

    @property
    def is_in_order(self) -> bool:
        """Read in offset order, all levels as one."""
        return self.in_offset_order or self.ordering == "key"

    def highest_position(self) -> int:
        return max(self.state.position(level) for level in range(LEVELS))


def _new_state(id: int, ordering: Ordering, start: int, in_offset_order: bool) -> GroupState:
    if ordering == "none":
        return UnorderedState(id, start, in_offset_order=in_offset_order)
    return LaneState(id, start)
