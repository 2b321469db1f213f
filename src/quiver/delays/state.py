"""The delayed messages of one partition: which are pending, and how the others left. Pure.

The messages themselves are in the schedule log: a message is scheduled by writing it there, without a record in the
timers journal. How messages left is in the journal.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from quiver.delays.events import (
    Cancelled,
    DelayEvent,
    Left,
    MoveContent,
    MoveDone,
    Purged,
    Relocated,
    Rescheduled,
    packed,
    unpacked,
)
from quiver.delays.pending import PRIORITY_BITS, Delayed, Pending
from quiver.delays.snapshot import encode_state, restore_state
from quiver.outbox.outbox import Outbox, Target
from quiver.structures.interval_set import IntervalSet
from quiver.structures.ordered_pairs import Integers


class Totals:
    """How many messages were scheduled, and how they left."""

    __slots__ = ("cancelled", "delivered", "expired", "lost", "scheduled")

    def __init__(self, numbers: Sequence[int] = (0, 0, 0, 0, 0)) -> None:
        self.scheduled, self.delivered, self.cancelled, self.expired, self.lost = numbers

    @property
    def changes(self) -> int:
        return sum(self.numbers())

    def numbers(self) -> list[int]:
        return [self.scheduled, self.delivered, self.cancelled, self.expired, self.lost]


class DelayState:
    """Changes take effect immediately; the owner writes the events. `apply` is for start-up."""

    def __init__(self, now_ms: int) -> None:
        self.outbox = Outbox()
        self.pending = Pending(now_ms)
        self.totals = Totals()
        self.known_below = 0
        """Every message of the schedule log below this offset was seen."""
        self.purged_below = 0
        self.restored_changes = 0
        """Changes that were in the snapshot at the last start."""
        self.cancelled = IntervalSet()
        self.expired = IntervalSet()
        self._leaving: set[int] = set()
        self._ahead = IntervalSet()
        """At start-up: messages that have left already and were not seen yet."""
        self._rescheduled: dict[int, int] = {}
        """At start-up: when messages are due that were not seen yet, other than the schedule log says."""

    # coming

    def schedule(self, ids: Integers, times_ms: Integers, priority: int) -> None:
        """Messages as they are in the schedule log, in its order. Those that are known already are ignored."""
        floor = max(self.known_below, self.pending.in_place_from, self.purged_below)
        if len(ids) and ids[0] < floor:
            new = ids >= floor
            ids, times_ms = ids[new], times_ms[new]
        if not len(ids):
            return
        self.known_below = int(ids[-1]) + 1
        self.totals.scheduled += len(ids)
        if self._ahead:
            stays = ~_are_in(self._ahead, ids)
            ids, times_ms = ids[stays], times_ms[stays]
        if self._rescheduled:
            times_ms = np.array(
                [
                    self._rescheduled.pop(id, time_ms)
                    for id, time_ms in zip(ids.tolist(), times_ms.tolist(), strict=True)
                ],
                np.int64,
            )
        self.pending.add(ids, times_ms << PRIORITY_BITS | priority)

    def pass_over(self, offset: int) -> None:
        """Messages below it that were not scheduled do not count."""
        self.known_below = max(self.known_below, offset)

    def seen_up_to(self, offset: int) -> None:
        """The schedule log was read up to an offset."""
        self.known_below = max(self.known_below, offset)
        self._ahead.clear()
        self._rescheduled.clear()

    # leaving

    def find(self, id: int) -> Delayed | None:
        """A pending message that can still be cancelled."""
        return None if id in self._leaving else self.pending.find(id)

    def cancel(self, ids: Iterable[int]) -> list[Delayed]:
        """Cancels messages, and returns those that could still be cancelled."""
        found = [message for id in ids if self.find(id) is not None and (message := self.pending.remove(id))]
        _note(self.cancelled, [message.id for message in found])
        self.totals.cancelled += len(found)
        return found

    def uncancel(self, messages: Sequence[Delayed]) -> None:
        """It could not be written."""
        for message in messages:
            self.cancelled.remove(message.id, message.id + 1)
        self.totals.cancelled -= len(messages)
        self.pending.put(messages)

    def reschedule(self, ids: Iterable[int], deliver_at_ms: int) -> list[Delayed]:
        """Makes messages due at another time; returns those that could still be changed, as they were."""
        found = (self.pending.reschedule(id, deliver_at_ms) for id in ids if id not in self._leaving)
        return [message for message in found if message is not None]

    def undo_reschedule(self, messages: Sequence[Delayed]) -> None:
        """It could not be written."""
        for message in messages:
            self.reschedule([message.id], message.deliver_at_ms)

    def take_due(self, now_ms: int, limit: int) -> list[Delayed]:
        """Takes what is due, in order of time. It cannot be cancelled any more unless it is put back."""
        taken = self.pending.take(now_ms, limit)
        self._leaving.update(message.id for message in taken)
        return taken

    def put_back(self, messages: Iterable[Delayed]) -> None:
        for message in messages:
            self._leaving.discard(message.id)
            self.pending.give_back(message)

    def leave(
        self,
        target: Target,
        parts: Sequence[Sequence[Delayed]],
        expired: Sequence[Delayed],
        lost: Sequence[Delayed],
        rescheduled: Collection[int] = (),
    ) -> Left:
        """What was taken leaves: each part as a move; expired and lost messages without one. `rescheduled` are the
        parts with messages whose time is not that of the schedule log."""
        moves = [
            self.outbox.begin(target, len(part), _content(part).pack(is_rescheduled=index in rescheduled))
            for index, part in enumerate(parts)
        ]
        for message in (message for part in (*parts, expired, lost) for message in part):
            self._leaving.discard(message.id)
            self.pending.remove(message.id)
        _note(self.expired, [message.id for message in expired])
        self._count(sum(map(len, parts)), len(expired), len(lost))
        return Left(moves, _ids(expired), _ids(lost))

    def stay(
        self, left: Left, parts: Sequence[Sequence[Delayed]], expired: Sequence[Delayed], lost: Sequence[Delayed]
    ) -> None:
        """The event could not be written: everything is as before, and due again."""
        for move in reversed(left.moves):
            self.outbox.take_back(move)
        for message in expired:
            self.expired.remove(message.id, message.id + 1)
        for part in (*parts, expired, lost):
            self.pending.put(part)
        self._count(-sum(map(len, parts)), -len(expired), -len(lost))

    # the front of the schedule log

    def floor(self) -> int:
        """Nothing below this offset of the schedule log is needed any more."""
        found = [self.known_below]
        found += [message.place for message in self.pending.lowest(1)]
        found += [int(MoveContent.unpack(move.content).places.min()) for move in self.outbox.open.values()]
        return min(found)

    def relocation(self, messages: Sequence[Delayed], places: Sequence[int]) -> Relocated:
        """The event for the messages at the front that were copied."""
        times = packed(np.array([message.time for message in messages], np.int64))
        below = max([self.pending.in_place_from, *(message.id + 1 for message in messages)])
        return Relocated(_ids(messages), packed(np.array(places, np.int64)), times, below)

    def forget_below(self, offset: int) -> None:
        """The schedule log now begins at this offset: forgets what is below."""
        self.cancelled.remove(0, offset)
        self.expired.remove(0, offset)

    def lose_below(self, offset: int) -> int:
        """The schedule log has lost everything below this offset: returns how many messages are lost with it."""
        before = len(self.pending)
        if not self.pending.in_place_from:
            self.pending.remove_below(offset)
        while (first := self.pending.lowest(1)) and first[0].place < offset:
            self.pending.remove(first[0].id)
        self.totals.lost += before - len(self.pending)
        return before - len(self.pending)

    # events at start-up, and those that change nothing before they are written

    def apply(self, event: DelayEvent) -> None:
        """Applies an event, unless it was applied before."""
        match event:
            case Cancelled():
                ids = np.array(event.ids, np.int64)
                self.totals.cancelled += self._leave_early(ids)
                _note_all(self.cancelled, ids)
            case Left():
                self._apply_left(event)
            case MoveDone():
                self.outbox.done(event.id)
            case Relocated():
                self._apply_relocated(event)
            case Purged():
                self._apply_purged(event.below)
            case Rescheduled():
                self._apply_rescheduled(event)

    def _apply_left(self, event: Left) -> None:
        expired, lost = unpacked(event.expired), unpacked(event.lost)
        delivered = 0
        for move in event.moves:
            self.outbox.begun(move)
            delivered += self._leave_early(MoveContent.unpack(move.content).ids)
        _note_all(self.expired, expired)
        self._count(delivered, self._leave_early(expired), self._leave_early(lost))

    def _apply_relocated(self, event: Relocated) -> None:
        self.pending.in_place_from = max(self.pending.in_place_from, event.below)
        columns = (unpacked(data).tolist() for data in (event.ids, event.places, event.times))
        for id, place, time in zip(*columns, strict=True):
            if self.pending.find(id) is None:
                if id < self.known_below or id in self._ahead:
                    continue
                at_ms = self._rescheduled.pop(id, time >> PRIORITY_BITS)
                priority = time & ((1 << PRIORITY_BITS) - 1)
                self.pending.add(np.array([id]), np.array([at_ms << PRIORITY_BITS | priority]))
            self.pending.relocate(id, place)

    def _apply_purged(self, below: int) -> None:
        self.purged_below = max(self.purged_below, below)
        self.pending.remove_below(below)

    def _apply_rescheduled(self, event: Rescheduled) -> None:
        for id in unpacked(event.ids).tolist():
            is_known = self.pending.reschedule(id, event.deliver_at_ms) is not None
            if not is_known and id >= self.known_below and id not in self._ahead:
                self._rescheduled[id] = event.deliver_at_ms

    def _leave_early(self, ids: Integers) -> int:
        """Removes these and returns how many there were. Those that are not known yet are remembered."""
        ids = np.sort(ids)
        seen = int(np.searchsorted(ids, self.known_below))
        count = sum(self.pending.remove(id) is not None for id in ids[:seen].tolist())
        if self.pending.in_place_from > self.known_below:  # some were copied before they were seen
            for id in ids[seen:].tolist():
                self.pending.remove(id)
        return count + _note_all(self._ahead, ids[seen:])

    # snapshots

    def snapshot(self) -> Iterator[bytes]:
        return encode_state(self)

    def restore(self, data: bytes) -> None:
        restore_state(data, self)
        self.restored_changes = self.totals.changes

    def head(self) -> Any:
        """Plain data without the pending messages, which come in chunks of their own."""
        return [
            self.known_below,
            self.purged_below,
            self.pending.in_place_from,
            self.totals.numbers(),
            self.cancelled.pack(),
            self.expired.pack(),
            self.outbox.image(),
        ]

    def restore_head(self, head: Any) -> None:
        self.known_below, self.purged_below, self.pending.in_place_from, totals, cancelled, expired, outbox = head
        self.totals = Totals(totals)
        self.cancelled, self.expired = IntervalSet.unpack(cancelled), IntervalSet.unpack(expired)
        self.outbox.restore(outbox)

    def _count(self, delivered: int, expired: int, lost: int) -> None:
        self.totals.delivered += delivered
        self.totals.expired += expired
        self.totals.lost += lost


def _note(among: IntervalSet, ids: Iterable[int]) -> None:
    for id in ids:
        among.add(id, id + 1)


def _note_all(among: IntervalSet, ids: Integers) -> int:
    """How many of them are new; they mostly come in runs."""
    if not len(ids):
        return 0
    ids = np.sort(ids)
    ends = np.flatnonzero(np.diff(ids) > 1)
    starts = ids[np.concatenate(([0], ends + 1))].tolist()
    stops = (ids[np.concatenate((ends, [len(ids) - 1]))] + 1).tolist()
    return sum(among.add(start, stop) for start, stop in zip(starts, stops, strict=True))


def _are_in(among: IntervalSet, ids: Integers) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """For each of these, in ascending order, whether it is in a set."""
    bounds = np.array(list(among.within(int(ids[0]), int(ids[-1]) + 1)), np.int64).reshape(-1, 2)
    steps = np.zeros(len(ids) + 1, np.int64)
    np.add.at(steps, np.searchsorted(ids, bounds[:, 0]), 1)
    np.add.at(steps, np.searchsorted(ids, bounds[:, 1]), -1)
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.cumsum(steps[:-1]) > 0
    return found


def _ids(messages: Sequence[Delayed]) -> bytes:
    return packed(np.array([message.id for message in messages], np.int64))


def _content(messages: Sequence[Delayed]) -> MoveContent:
    return MoveContent(
        np.array([message.id for message in messages], np.int64),
        np.array([message.place for message in messages], np.int64),
        np.array([message.deliver_at_ms for message in messages], np.int64),
    )
