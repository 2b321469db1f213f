"""A queue group in a partition: its state, its counters, and which of its settlements may still be undone."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from quiver.model.queue import Ordering
from quiver.partition.committed_view import CommittedView
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import LEVELS, GroupState, Run
from quiver.queues.state.unordered.state import UnorderedState
from quiver.structures.interval_set import IntervalSet

_SETTLED_AT_ONCE = 5_000


def _per_level() -> list[int]:
    return [0] * LEVELS


class Counters(msgspec.Struct):
    """What has happened in a group and partition since the broker was started; messages, unless it says otherwise."""

    acks: int = 0
    nacks: int = 0
    rejects: int = 0
    extensions: int = 0
    dead: int = 0
    """Dead letters, including those before the broker was started."""
    expired_leases: int = 0
    """Messages whose lease expired."""
    lost: int = 0
    """Gone before they were settled: removed by retention, or damaged."""
    delivered: int = 0
    delivered_again: int = 0
    """Of these, messages that were delivered before."""
    dead_by_reason: dict[str, int] = msgspec.field(default_factory=dict)
    """Since the broker was started."""
    delivered_by_level: list[int] = msgspec.field(default_factory=_per_level)
    waited_ms_by_level: list[int] = msgspec.field(default_factory=_per_level)
    """From arrival to delivery, summed over the messages."""
    last_served_ms_by_level: list[int] = msgspec.field(default_factory=_per_level)

    def note_dead(self, reason: str, count: int) -> None:
        self.dead += count
        self.dead_by_reason[reason] = self.dead_by_reason.get(reason, 0) + count


class PendingAcks:
    """Settlements that are made in memory and may not last: not decided yet, or not on disk yet.

    They hold back the group's committed offset, which covers only what is decided and durable. Changes are numbered
    in the order of the journal, so they become durable in this order.
    """

    __slots__ = ("_last_token", "_undecided", "_unsynced")

    def __init__(self) -> None:
        self._undecided: dict[int, Sequence[Run]] = {}
        """By token, the acks whose transaction is being decided: runs in order."""
        self._unsynced: deque[tuple[int, int]] = deque()
        """Number of the change and its lowest offset. An offset that is not below that of a later change holds back
        nothing more and is left out: so offsets rise, the first is the lowest, and each change costs O(1)."""
        self._last_token = 0

    def add_unsynced(self, start: int, change: int) -> None:
        """A change settles messages, the lowest of them at `start`."""
        while self._unsynced and self._unsynced[-1][1] >= start:
            self._unsynced.pop()
        self._unsynced.append((change, start))

    def add_undecided(self, runs: Sequence[Run]) -> int:
        """Runs in order. Returns a token: `decided` or `taken_back` must follow."""
        self._last_token += 1
        self._undecided[self._last_token] = runs
        return self._last_token

    def decided(self, token: int, change: int) -> None:
        """The acks count, and are on their way to the journal."""
        runs = self._undecided.pop(token, None)
        if runs is not None:
            self.add_unsynced(runs[0][0], change)

    def taken_back(self, token: int) -> None:
        self._undecided.pop(token, None)

    def has_unsynced(self, synced: int) -> bool:
        """Whether something is settled that is not on disk, once changes up to the number `synced` are."""
        while self._unsynced and self._unsynced[0][0] <= synced:
            self._unsynced.popleft()
        return bool(self._unsynced)

    def lowest(self, synced: int) -> int | None:
        """The lowest offset that is held back once changes up to the number `synced` are on disk; None: none is."""
        has_unsynced = self.has_unsynced(synced)
        found = min((runs[0][0] for runs in self._undecided.values()), default=None)
        if not has_unsynced:
            return found
        return self._unsynced[0][1] if found is None else min(found, self._unsynced[0][1])

    def undecided(self) -> Iterator[Run]:
        for runs in self._undecided.values():
            yield from runs

    def clear(self) -> None:
        """The group begins elsewhere: what was settled before holds back nothing any more."""
        self._undecided.clear()
        self._unsynced.clear()


class QueueGroup:
    def __init__(self, id: int, *, ordering: Ordering, start: int, in_offset_order: bool, version: int = 0) -> None:
        self.id = id
        self.ordering: Ordering = ordering
        self.in_offset_order = in_offset_order
        self.is_in_order = in_offset_order or ordering == "key"
        """Read in offset order, all levels as one."""
        self.state = _new_state(id, ordering, start, in_offset_order)
        self.version = version
        """The last of the group's commits in this partition that the state has followed: see `Committed.version`."""
        self.pending_acks = PendingAcks()
        self.counters = Counters()
        self.undone = Counters()
        """Of these, what was taken back because it could not be written: counters never fall."""
        self.reading = asyncio.Lock()
        self.log_start = 0
        """Everything below is known to be gone from the log."""
        self.known_damage: set[int] = set()
        """Where the log continues after damage that was counted."""

    @property
    def dead_count(self) -> int:
        return self.counters.dead - self.undone.dead

    def highest_position(self) -> int:
        return max(self.state.position(level) for level in range(LEVELS))

    def settled_offset(self, committed: CommittedView, synced_changes: int) -> int:
        """Everything below is settled, decided and on disk. Levels that are read by themselves and have nothing more
        to read do not hold it back."""
        if self.is_in_order:
            settled = self.state.lowest_unsettled()
        else:
            settled = self.state.lowest_unsettled(newest=committed.newest, end=committed.high_watermark)
        return self._held_back(settled, synced_changes)

    def settled_with(self, runs: Sequence[Run], committed: CommittedView, synced_changes: int) -> int | None:
        """Where the settled offset is once these messages are settled; None if they are not at the front."""
        if not isinstance(self.state, UnorderedState):
            return None
        found = self._held_back(self.state.lowest_unsettled_without(runs), synced_changes)
        return found if found > self.settled_offset(committed, synced_changes) else None

    def may_overtake(self, synced_changes: int) -> bool:
        """Whether a message that is delivered now may come after one of its key that a power cut brings back: its
        settlement is not on disk."""
        return self.ordering == "key" and self.pending_acks.has_unsynced(synced_changes)

    def settled(self, runs: Sequence[Run], level: int) -> IntervalSet:
        """Which of these messages, all of one level, are settled for good, once what was changed so far is on disk.

        What a transaction acks that is not decided yet is not: the acks may be taken back.
        """
        found = self.state.settled(runs, level)
        for start, end in self.pending_acks.undecided():
            found.remove(start, end)
        return found

    async def settle_below(self, offset: int) -> int:
        """Settles everything below, in slices so that others get their turns; returns how many unsettled messages
        are gone."""
        state, gone = self.state, 0
        while sum(state.counts()[:3]) > _SETTLED_AT_ONCE:
            slice_end = state.lowest_unsettled() + _SETTLED_AT_ONCE
            if slice_end >= offset:
                break
            gone += state.settle_below(slice_end)
            await asyncio.sleep(0)
        return gone + state.settle_below(offset)

    def _held_back(self, settled: int, synced_changes: int) -> int:
        lowest = self.pending_acks.lowest(synced_changes)
        return settled if lowest is None else min(lowest, settled)


def _new_state(id: int, ordering: Ordering, start: int, in_offset_order: bool) -> GroupState:
    if ordering == "none":
        return UnorderedState(id, start, in_offset_order=in_offset_order)
    return LaneState(id, start)
