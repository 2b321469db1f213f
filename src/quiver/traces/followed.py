"""The sampled messages whose deliveries are followed, by partition. Pure.

What happens to a message mostly happens to its neighbours, too. So the history of deliveries is kept for runs of
messages that have the same one, and an event of the journal is applied once per run. Runs are split where an event
concerns only some of their messages.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from quiver.life.deliveries import Deliveries
from quiver.life.journal_index import JournalRecord
from quiver.model.names import TopicPartition
from quiver.model.trace.life import LifeEvent
from quiver.queues.journal import events
from quiver.structures.offset_ranges import Range
from quiver.traces.span_rows import Hashes, TracedMessages

_END = 2**62


class RunEvent(NamedTuple):
    """What happened to followed messages of a range."""

    start: int
    end: int
    number: int
    """How many events they had before."""
    event: LifeEvent


class _Run:
    """Messages of a range of offsets to which the same has happened."""

    __slots__ = ("deliveries", "end", "seen", "start")

    def __init__(self, start: int, end: int, deliveries: Deliveries, seen: int = 0) -> None:
        self.start = start
        self.end = end
        self.deliveries = deliveries
        self.seen = seen
        deliveries.move_to(start)

    def split(self, at: int) -> "_Run":
        """Keeps what is before an offset, and returns the rest."""
        rest = _Run(at, self.end, self.deliveries.copy(), self.seen)
        self.end = at
        return rest

    def apply(self, record: JournalRecord) -> Iterator[RunEvent]:
        """What is new. A delivery is an event when it begins, and one more when it ends."""
        self.deliveries.apply([record])
        for number in range(self.seen, len(self.deliveries.events)):
            yield RunEvent(self.start, self.end, number, self.deliveries.events[number])
        self.seen = len(self.deliveries.events)


class FollowedPartition:
    """Messages of one partition, and how far its journal was read for them."""

    def __init__(self, messages: TracedMessages, position: int, name_of: Callable[[int], str | None]) -> None:
        self.position = position
        self.messages = messages
        self.hashes: Hashes = messages.span_hashes()
        self._name_of = name_of
        self._runs: list[_Run] = []
        """Disjoint and in order. Messages in none of them had no event."""
        self._settled: dict[int, int] = {}
        """By group: everything below is settled."""

    @property
    def run_count(self) -> int:
        return len(self._runs)

    def add(self, more: "FollowedPartition") -> None:
        """Messages after all others, with what has happened to them up to the same position."""
        self.messages = self.messages.joined(more.messages)
        self.hashes = np.concatenate((self.hashes, more.hashes))
        self._runs += more._runs

    def forget(self, count: int) -> None:
        """The first ones are followed no longer."""
        self.messages, self.hashes = self.messages.after(count), self.hashes[count:]
        first = int(self.messages.offsets[0]) if len(self.messages.offsets) else _END
        self._runs = [run for run in self._runs if run.end > first]

    def forget_run(self) -> None:
        """The messages of the first run, and those before it, are followed no longer."""
        self.forget(self.places(0, self._runs[0].end)[1])

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Where the messages of a range begin and end among all that are followed."""
        first, last = self.messages.offsets.searchsorted((start, end)).tolist()
        return first, last

    def apply(self, record: JournalRecord) -> Iterator[RunEvent]:
        written_at = [event for event in record.events if isinstance(event, events.WrittenAt)]
        for event in record.events:
            for run in self._concerned(event):
                yield from run.apply(JournalRecord(record.at_ms, [*written_at, event]))

    def _concerned(self, event: events.Event) -> list[_Run]:
        match event:
            case events.Leased():
                if event.group in self._settled:  # what is delivered again can be settled again
                    first = min((run.start for run in event.runs), default=_END)
                    self._settled[event.group] = min(first, self._settled[event.group])
                return self._within([(run.start, run.end) for run in event.runs])
            case events.Returned():
                return self._within([(run.start, run.end) for run in event.runs])
            case events.Acked() | events.Extended():
                return self._within(event.runs)
            case events.Died():
                return self._within([(dead.start, dead.end) for dead in event.dead])
            case events.SettledBelow():
                return self._within([self._settle_below(event.group, event.offset)])
            case events.Rewound():
                self._settled.pop(event.group, None)
                return [*self._within([self._settle_below(event.group, event.offset)]), *self._begun(event.offset)]
            case events.Forgotten():
                self._settled.pop(event.group, None)
                return self._begun(0)
        return []

    def _settle_below(self, group: int, offset: int) -> Range:
        """What was not settled before."""
        before = self._settled.get(group, 0)
        self._settled[group] = max(before, offset)
        return before, offset

    def _begun(self, offset: int) -> list[_Run]:
        """The runs from an offset on: to other messages nothing has happened that could be undone."""
        for at, run in enumerate(self._runs):
            if run.start < offset < run.end:
                self._runs.insert(at + 1, run.split(offset))
                break
        return [run for run in self._runs if run.start >= offset]

    def _within(self, ranges: list[Range]) -> list[_Run]:
        found: list[_Run] = []
        for start, end in ranges:
            first, last = self.places(start, end)
            if first < last:
                offsets = self.messages.offsets
                found += self._cut(int(offsets[first]), int(offsets[last - 1]) + 1)
        return found

    def _cut(self, start: int, end: int) -> list[_Run]:
        """Runs that cover the messages of a range, and no others."""
        runs = self._runs
        at = max(0, bisect_right(runs, start, key=lambda run: run.start) - 1)
        if at < len(runs) and runs[at].start < start < runs[at].end:
            runs.insert(at + 1, runs[at].split(start))
        if at < len(runs) and runs[at].end <= start:
            at += 1
        found: list[_Run] = []
        position, stop = start, at
        while stop < len(runs) and runs[stop].start < end:
            run = runs[stop]
            if run.end > end:
                runs.insert(stop + 1, run.split(end))
            found += self._new_runs(position, run.start)
            found.append(run)
            position = run.end
            stop += 1
        found += self._new_runs(position, end)
        runs[at:stop] = found
        return found

    def _new_runs(self, start: int, end: int) -> list[_Run]:
        """Of the messages in a range of which none had an event."""
        first, last = self.places(start, end) if start < end else (0, 0)
        return [_Run(start, end, Deliveries(start, self._name_of))] if first < last else []


class Followed:
    """At most so many messages, and runs of them with the same history; of the partition with the most of them the
    oldest are forgotten."""

    def __init__(self, most: int, most_runs: int) -> None:
        self._most = most
        self._most_runs = most_runs
        self.partitions: dict[TopicPartition, FollowedPartition] = {}

    def __len__(self) -> int:
        return sum(len(partition.messages.offsets) for partition in self.partitions.values())

    def add(self, place: TopicPartition, more: FollowedPartition) -> None:
        found = self.partitions.get(place)
        if found is None or int(found.messages.offsets[-1]) >= int(more.messages.offsets[0]):
            self.partitions[place] = more  # or the log was cut off, and has other messages now
        else:
            found.add(more)

    def forget(self, place: TopicPartition) -> None:
        self.partitions.pop(place, None)

    def limit(self) -> None:
        while (surplus := len(self) - self._most) > 0:
            place = max(self.partitions, key=lambda each: len(self.partitions[each].messages.offsets))
            found = self.partitions[place]
            found.forget(min(surplus, len(found.messages.offsets)))
            self._drop_empty(place)
        while sum(each.run_count for each in self.partitions.values()) > self._most_runs:
            place = max(self.partitions, key=lambda each: self.partitions[each].run_count)
            found = self.partitions[place]
            for _ in range(1 + found.run_count // 10):
                found.forget_run()
            self._drop_empty(place)

    def _drop_empty(self, place: TopicPartition) -> None:
        if not len(self.partitions[place].messages.offsets):
            del self.partitions[place]
