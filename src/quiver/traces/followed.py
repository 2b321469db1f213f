"""The sampled messages whose deliveries are followed, by partition. Pure."""

from collections.abc import Callable, Iterable, Iterator

from quiver.life.deliveries import Deliveries
from quiver.life.journal_index import JournalRecord
from quiver.model.names import TopicPartition
from quiver.model.trace.span import Span
from quiver.queues.journal import events
from quiver.traces.spans import SampledMessage


class FollowedMessage:
    def __init__(self, message: SampledMessage, name_of: Callable[[int], str | None]) -> None:
        self.message = message
        self._deliveries = Deliveries(message.offset, name_of)
        self._seen = 0

    def apply(self, record: JournalRecord) -> Iterator[Span]:
        """The spans of what is new. A delivery is a span when it begins, and one more when it ends."""
        self._deliveries.apply([record])
        for number in range(self._seen, len(self._deliveries.events)):
            span = self.message.span_of(number, self._deliveries.events[number])
            if span is not None:
                yield span
        self._seen = len(self._deliveries.events)


class FollowedPartition:
    """Messages of one partition, and how far its journal was read for them."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.messages: dict[int, FollowedMessage] = {}
        """By offset, the first sampled first."""

    def apply(self, record: JournalRecord) -> Iterator[Span]:
        written_at = [event for event in record.events if isinstance(event, events.WrittenAt)]
        for event in record.events:
            for offset in self._concerned(event):
                yield from self.messages[offset].apply(JournalRecord(record.at_ms, [*written_at, event]))

    def _concerned(self, event: events.Event) -> list[int]:
        match event:
            case events.Leased() | events.Returned():
                return self._within((run.start, run.end) for run in event.runs)
            case events.Acked() | events.Extended():
                return self._within(event.runs)
            case events.Died():
                return self._within((dead.start, dead.end) for dead in event.dead)
            case events.SettledBelow() | events.Rewound() | events.Forgotten():
                return list(self.messages)
        return []

    def _within(self, runs: Iterable[tuple[int, int]]) -> list[int]:
        """Costs as much as the shorter of a run and what is followed."""
        found: list[int] = []
        for start, end in runs:
            if end - start <= len(self.messages):
                found += [offset for offset in range(start, end) if offset in self.messages]
            else:
                found += [offset for offset in self.messages if start <= offset < end]
        return found


class Followed:
    """At most so many messages: the oldest are followed no longer."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.partitions: dict[TopicPartition, FollowedPartition] = {}
        self._order: dict[tuple[TopicPartition, int], None] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, place: TopicPartition, message: FollowedMessage, position: int) -> FollowedPartition:
        """`position` is where the journal can first mention it."""
        found = self.partitions.get(place)
        if found is None:
            found = self.partitions[place] = FollowedPartition(position)
        found.messages[message.message.offset] = message
        self._order[place, message.message.offset] = None
        while len(self._order) > self._most:
            self._forget(*next(iter(self._order)))
        return found

    def forget(self, place: TopicPartition) -> None:
        found = self.partitions.pop(place, None)
        for offset in () if found is None else found.messages:
            self._order.pop((place, offset), None)

    def _forget(self, place: TopicPartition, offset: int) -> None:
        del self._order[place, offset]
        found = self.partitions[place]
        found.messages.pop(offset, None)
        if not found.messages:
            del self.partitions[place]
