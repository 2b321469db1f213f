"""The delayed messages of a partition that are not due yet, by id, by time and by place. Pure."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

import numpy as np

from quiver.structures.ordered_pairs import LOWEST, Integers, OrderedPairs, Pair
from quiver.structures.timer_wheel import TimerWheel

PRIORITY_BITS = 3
_PRIORITY_MASK = (1 << PRIORITY_BITS) - 1
_NEAR_MS = 60_000
"""What is due sooner is loaded onto the wheel."""
_AT_LEAST_MS = 30_000
"""A message is loaded at least this long before it is due."""
_LOADED_AT_ONCE = 4096


class Delayed(NamedTuple):
    """A message that waits."""

    id: int
    """The offset at which it was written to the schedule log."""
    deliver_at_ms: int
    priority: int
    place: int
    """The offset at which it is now."""

    @property
    def time(self) -> int:
        """When it is due, with its priority in the lowest bits."""
        return self.deliver_at_ms << PRIORITY_BITS | self.priority


class Pending:
    """By id, by time and, for messages that were copied within the schedule log, by place: 32 bytes per message, 64
    if it was copied, and about 100 more while it is nearly due."""

    def __init__(self, now_ms: int) -> None:
        self.in_place_from = 0
        """Messages with a lower id have another place; the others are where they were written."""
        self._due = DueTimes(now_ms)
        """The numbers are ids with the priority in the lowest bits."""
        self._times = OrderedPairs()
        """By id: when it is due, with the priority in the lowest bits."""
        self._places = OrderedPairs()
        self._ids = OrderedPairs()

    def __len__(self) -> int:
        return len(self._times)

    def add(self, ids: Integers, times: Integers) -> None:
        self._times.extend(ids, times)
        self._due.add(times >> PRIORITY_BITS, ids << PRIORITY_BITS | times & _PRIORITY_MASK)

    def put(self, messages: Sequence[Delayed]) -> None:
        """Adds messages that were removed before."""
        if messages:
            ids = np.array([message.id for message in messages], np.int64)
            self.add(ids, np.array([message.time for message in messages], np.int64))
        for message in messages:
            if message.id < self.in_place_from:
                self.relocate(message.id, message.place)

    def reschedule(self, id: int, deliver_at_ms: int) -> Delayed | None:
        """Makes a message due at another time; returns it as it was, None if it is not pending."""
        message = self.remove(id)
        if message is not None:
            self.put([message._replace(deliver_at_ms=deliver_at_ms)])
        return message

    def find(self, id: int) -> Delayed | None:
        time = self._times.find(id)
        return None if time is None else self._delayed(id, time)

    def remove(self, id: int) -> Delayed | None:
        time = self._times.pop(id)
        if time is None:
            return None
        message = self._delayed(id, time)
        self._due.remove(message.deliver_at_ms, id << PRIORITY_BITS | message.priority)
        if id < self.in_place_from:
            self._places.remove(id, message.place)
            self._ids.remove(message.place, id)
        return message

    # by time

    def take(self, now_ms: int, limit: int) -> list[Delayed]:
        """What is due, in order of time. It is not taken again unless it is given back."""
        found = (self.find(number >> PRIORITY_BITS) for number in self._due.take(now_ms, limit))
        return [message for message in found if message is not None]

    def give_back(self, message: Delayed) -> None:
        self._due.put_back(message.deliver_at_ms, message.id << PRIORITY_BITS | message.priority)

    def next_ms(self) -> int | None:
        """When to take next; None if there is nothing to wait for."""
        return self._due.next_ms()

    def page(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Time, id and priority in order of time, then of id, from one position up to another."""
        pairs = self._due.order.slice(start, stop)
        return [(time_ms, number >> PRIORITY_BITS, number & _PRIORITY_MASK) for time_ms, number in pairs]

    def coming(self, since: tuple[int, int], until_ms: int, limit: int) -> tuple[Integers, Integers]:
        """Times and ids in order of time, from a time and id on and up to a time."""
        times_ms, numbers = self._due.order.columns(since[0], since[1] << PRIORITY_BITS, limit)
        near = int(np.searchsorted(times_ms, until_ms, "right"))
        return times_ms[:near], numbers[:near] >> PRIORITY_BITS

    def places(self, ids: Integers) -> Integers:
        """The places of messages, in order."""
        places = ids.copy()
        for index in np.flatnonzero(ids < self.in_place_from).tolist():
            place = self._places.find(int(ids[index]))
            places[index] = ids[index] if place is None else place
        places.sort()
        return places

    def last_ms(self) -> int:
        """When the last one is due; 0 if there is none."""
        last = self._due.order.slice(len(self) - 1, len(self)) if len(self) else []
        return last[0][0] if last else 0

    def count_before(self, time_ms: int) -> int:
        return self._due.order.rank(time_ms)

    # by place

    def relocate(self, id: int, place: int) -> None:
        before = self._places.pop(id)
        if before is not None:
            self._ids.remove(before, id)
        self._places.add(id, place)
        self._ids.add(place, id)

    def lowest(self, count: int) -> list[Delayed]:
        """The messages closest to the front of the schedule log, in order."""
        copied = self._ids.slice(0, count)
        in_place = [(id, id) for id, _ in self._times.starting_at(self.in_place_from, LOWEST, count)]
        found = (self.find(id) for _, id in islice(merge(copied, in_place), count))
        return [message for message in found if message is not None]

    # by id

    def after(self, id: int, count: int) -> tuple[Integers, Integers, Integers]:
        """The next messages with a higher id: their ids, times (with priorities) and places."""
        ids, times = self._times.columns(id + 1, LOWEST, count)
        copied = int(np.searchsorted(ids, self.in_place_from))
        places = np.concatenate((self._places.columns(id + 1, LOWEST, copied)[1], ids[copied:]))
        return ids, times, places

    def restore(self, ids: Integers, times: Integers, places: Integers) -> None:
        """Adds what `after` returned. `in_place_from` is restored before this."""
        self.add(ids, times)
        copied = int(np.searchsorted(ids, self.in_place_from))
        self._places.extend(ids[:copied], places[:copied])
        self._ids.extend(places[:copied], ids[:copied])

    def remove_below(self, id: int) -> None:
        ids, _, _ = self.after(-1, len(self))
        if len(ids) and ids[-1] < id:
            for pairs in (self._times, self._places, self._ids):
                pairs.clear()
            self._due.clear()
        else:
            for each in ids[ids < id].tolist():
                self.remove(each)

    def _delayed(self, id: int, time: int) -> Delayed:
        place = self._places.find(id) if id < self.in_place_from else None
        return Delayed(id, time >> PRIORITY_BITS, time & _PRIORITY_MASK, id if place is None else place)


class DueTimes:
    """Numbers of 64 bits, each with the time at which it is due.

    `order` has every pair of time and number. Those below `_loaded` are on the wheel as well, unless they were taken;
    the others are loaded when they are nearly due.
    """

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self.order = OrderedPairs()
        self._wheel = TimerWheel(now_ms)
        self._loaded: Pair = (0, 0)

    def __len__(self) -> int:
        return len(self.order)

    def add(self, times_ms: Integers, numbers: Integers) -> None:
        self.order.extend(times_ms, numbers)
        time_ms, number = self._loaded
        near = (times_ms < time_ms) | ((times_ms == time_ms) & (numbers < number))
        if near.any():
            for at_ms, each in zip(times_ms[near].tolist(), numbers[near].tolist(), strict=True):
                self._wheel.schedule(each, at_ms)

    def remove(self, time_ms: int, number: int) -> bool:
        self._wheel.cancel(number)
        return self.order.remove(time_ms, number)

    def take(self, now_ms: int, limit: int) -> list[int]:
        """What is due, in order of time. It stays in `order` until it is removed, and is not taken again."""
        self._load(now_ms)
        return self._wheel.advance(now_ms, limit)

    def put_back(self, time_ms: int, number: int) -> None:
        """What was taken is due again."""
        self._wheel.schedule(number, time_ms)

    def next_ms(self) -> int | None:
        """When to `take` next; None if there is nothing to wait for."""
        times = [self._wheel.next_due_ms()]
        times += [time_ms - _AT_LEAST_MS for time_ms, _ in self.order.starting_at(*self._loaded, 1)]
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def clear(self) -> None:
        self.order.clear()
        self._wheel, self._loaded = TimerWheel(self._began_ms), (0, 0)

    def _load(self, now_ms: int) -> None:
        for time_ms, number in self.order.starting_at(*self._loaded, _LOADED_AT_ONCE):
            if time_ms > now_ms + _NEAR_MS:
                return
            self._wheel.schedule(number, time_ms)
            self._loaded = (time_ms, number + 1)
