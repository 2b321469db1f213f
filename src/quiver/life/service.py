"""Puts the life of a message together from what is stored: how it came, its deliveries, where it went."""

from collections.abc import Iterable, Sequence

import msgspec

from quiver.dead_letters.headers import read_dead_letter
from quiver.delays.service import Delays
from quiver.groups.service import Groups
from quiver.life.deliveries import Deliveries, Departure, GroupOutcome
from quiver.life.journal_index import FoundRecords, JournalIndexes
from quiver.life.moves import Moved, arrived_at, delayed_from, redriven_from, removed_again
from quiver.life.stored_message import LookedUp, check_partition, look_up, transaction_end
from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import Closed, PartitionNotFound, ShuttingDown, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.model.times import format_time
from quiver.model.topic import Topic
from quiver.model.trace.life import FrameFacts, GroupStanding, LifeEvent, MessageLife, Place, Standing
from quiver.model.trace.traceparent import TRACEPARENT, parse_traceparent
from quiver.outbox.outbox import Move, Target, mover_id, source_of
from quiver.partition.partition import Partition
from quiver.queues.journal.events import DeadLetterOrigin
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.records.header import COMPRESSION_NAMES, FrameHeader
from quiver.streams.service import Streams
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_NOTHING = FoundRecords([], None, [])


class MessageLives:
    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        delays: Delays,
        queues: Queues,
        streams: Streams,
        *,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._delays = delays
        self._queues = queues
        self._streams = streams
        self._groups: Groups = streams.groups
        self._clock = clock
        self._indexes = JournalIndexes()

    async def of(self, topic_name: str, number: int, offset: int) -> MessageLife:
        """Raises MessageNotFound if there is no such message, with the reason. Changes nothing."""
        topic = self._catalogue.topic(topic_name)
        check_partition(topic, number)
        partition = self._partitions.get(topic.id, number)
        try:
            return await self._of(topic, number, partition, offset)
        except Closed:
            if (number, partition) in self._partitions.owned(topic.id):
                raise ShuttingDown() from None
            raise TopicNotFound(topic=topic_name) from None

    async def _of(self, topic: Topic, number: int, partition: Partition, offset: int) -> MessageLife:
        looked_up = await look_up(topic, number, partition, offset)
        self._queues.check_open(topic.id, number)
        queue = self._queues.partition_queues(topic.id).get(number)
        found = _NOTHING if queue is None else await self._indexes.of(queue.journal.log).about(offset)
        deliveries = Deliveries(offset, self._groups.name_of)
        deliveries.apply(found.records)
        outcomes = deliveries.finish(self._clock.now_ms())
        events = await self._onward(topic, number, offset, deliveries.events, deliveries.departures)
        appended_ms = looked_up.header.append_time_ms
        is_partly_known = found.known_since_ms is not None and found.known_since_ms > appended_ms
        notes = list(found.damage)
        if is_partly_known and found.known_since_ms is not None:
            notes.append(
                f"the journal of deliveries begins at {format_time(found.known_since_ms)}, after the message: what"
                " happened before that is not known any more (delivery_history says how long it is kept)"
            )
        arrival = await self._arrival(topic, number, partition, looked_up)
        positions = await self._streams.positions.standings(TopicPartition(topic.id, number))
        return MessageLife(
            topic.name,
            number,
            offset,
            arrival + in_order(events),
            list(self._standings(positions, looked_up, queue, outcomes, is_partly_known)),
            found.known_since_ms if is_partly_known else None,
            notes,
            trace_id(looked_up),
            _frame(looked_up.header),
        )

    # how it came

    async def _arrival(self, topic: Topic, number: int, partition: Partition, looked_up: LookedUp) -> list[LifeEvent]:
        header, message = looked_up.header, looked_up.row.message
        events = [LifeEvent("published", message.timestamp_ms)]
        source = source_of(header.producer_id)
        if source is not None:
            events += await self._moved_here(topic, number, looked_up, source)
        events.append(LifeEvent("appended", header.append_time_ms, transaction=looked_up.transaction))
        if header.is_transactional:
            ended = await transaction_end(partition, looked_up)
            if ended is not None:
                outcome = "transaction_committed" if ended.is_committed else "transaction_aborted"
                events.append(LifeEvent(outcome, ended.at_ms, transaction=looked_up.transaction))  # type: ignore[arg-type]
        return events

    async def _moved_here(
        self, topic: Topic, number: int, looked_up: LookedUp, source: tuple[str, int, int]
    ) -> list[LifeEvent]:
        purpose, topic_id, partition = source
        if purpose == "delays":
            delays = self._delays.of_partition(topic_id, partition)
            origin = None if delays is None else await delayed_from(delays, looked_up)
            if origin is None:
                return [LifeEvent("delayed", looked_up.row.message.timestamp_ms)]
            until_ms, id = origin.deliver_at_ms, origin.id
            return [LifeEvent("delayed", origin.scheduled_ms, until_ms=until_ms, delayed_id=id)]
        if purpose == "dead_letters":
            return [_death(number, looked_up)]
        if purpose == "redrive":
            return await self._redriven(Target(topic.id, number), looked_up, TopicPartition(topic_id, partition))
        return []

    async def _redriven(self, target: Target, looked_up: LookedUp, source: TopicPartition) -> list[LifeEvent]:
        """The dead letter that it was, and before that another message, as far as they are known."""
        at_ms = looked_up.header.append_time_ms
        queue = self._queues.partition_queues(source.topic_id).get(source.partition)
        removed = None if queue is None else await redriven_from(queue.journal.log, target, looked_up)
        try:
            name = self._catalogue.topic_by_id(source.topic_id).name
        except TopicNotFound:
            return [LifeEvent("redriven", at_ms)]
        if removed is None:
            return [LifeEvent("redriven", at_ms, origin=Place(name, source.partition))]
        redriven = LifeEvent("redriven", removed.at_ms, origin=Place(name, source.partition, removed.offset))
        if removed.origin is None:
            return [redriven]
        topic, number, offset, group = removed.origin
        return [LifeEvent("dead_lettered", None, group, origin=Place(topic, number, offset)), redriven]

    # where it went

    async def _onward(
        self, topic: Topic, number: int, offset: int, events: list[LifeEvent], departures: Iterable[Departure]
    ) -> list[LifeEvent]:
        """The events with where each move took the message, and what became of its dead letters."""
        events, more = list(events), []
        for departure in departures:
            event = events[departure.event]
            since_ms = event.time_ms or 0
            to = await self._arrived(topic, number, departure.move, departure.place, since_ms)
            if to is not None and event.event == "dead_lettered":
                origin = (topic.name, number, offset, event.group)
                to, removal = await self._dead_letter(to, origin, since_ms)
                more += removal
            events[departure.event] = msgspec.structs.replace(event, to=to)
        return events + more

    async def _dead_letter(
        self, place: Place, origin: DeadLetterOrigin, since_ms: int
    ) -> tuple[Place, list[LifeEvent]]:
        """Where a dead letter is or was, and its redrive or purge."""
        topic = self._catalogue.topic(place.topic)
        queue = self._queues.partition_queues(topic.id).get(place.partition)
        removed = None if queue is None else await removed_again(queue.journal.log, origin, since_ms)
        if removed is None:
            return place, []
        was = Place(place.topic, place.partition, removed.offset)
        if removed.move is None:
            return was, [LifeEvent("purged", removed.at_ms, origin[3], origin=was)]
        to = await self._arrived(topic, place.partition, removed.move, removed.place, removed.at_ms)
        return was, [LifeEvent("redriven", removed.at_ms, origin[3], origin=was, to=to)]

    async def _arrived(self, topic: Topic, number: int, move: Move, place: int, since_ms: int) -> Place | None:
        is_redrive = move.target.topic_id != 0
        mover = mover_id("redrive" if is_redrive else "dead_letters", topic.id, number)
        try:
            if is_redrive:
                goal = self._catalogue.topic_by_id(move.target.topic_id)
            else:
                goal = self._catalogue.topic(dead_letter_topic(topic.name))
            target = self._partitions.get(goal.id, move.target.partition)
        except (TopicNotFound, PartitionNotFound):
            return None
        moved = Moved(mover, move.sequence + place, since_ms)
        return Place(goal.name, move.target.partition, await arrived_at(target, moved))

    # where it is now

    def _standings(
        self,
        positions: dict[int, int],
        looked_up: LookedUp,
        queue: PartitionQueue | None,
        outcomes: dict[int, GroupOutcome],
        is_partly_known: bool,
    ) -> Iterable[GroupStanding]:
        offset = looked_up.offset
        for group in list(self._groups.groups().values()):
            position = positions.get(group.id)
            state = None if queue is None else queue.state(group.id)
            if position is None and (queue is None or state is None):
                continue
            outcome = outcomes.get(group.id)
            attempts = 0 if outcome is None else outcome.attempts
            standing: Standing
            if outcome is not None and outcome.is_dead:
                standing = "dead"
            elif (outcome is not None and outcome.is_settled) or (position is not None and offset < position):
                standing = "settled"
            elif outcome is not None and outcome.is_leased:
                standing = "leased"
            elif attempts:
                standing = "retrying"
            elif queue is None or state is None or offset >= state.position(looked_up.header.priority):
                standing = "waiting"
            elif offset < (queue.settled_offset(group.id) or 0):
                standing = "settled"
            else:
                standing = "unknown" if is_partly_known else "waiting"
            yield GroupStanding(group.name, group.kind, standing, attempts)


def in_order(events: Sequence[LifeEvent]) -> list[LifeEvent]:
    """By time; those without one stay after the event before them."""
    times, last = [], 0
    for event in events:
        last = last if event.time_ms is None else event.time_ms
        times.append(last)
    return [event for _, _, event in sorted(zip(times, range(len(events)), events, strict=True))]


def trace_id(looked_up: LookedUp) -> str:
    """Of its header `traceparent`, if that is one."""
    parent = parse_traceparent((looked_up.row.message.headers or {}).get(TRACEPARENT))
    return "" if parent is None else parent.trace_id


def _frame(header: FrameHeader) -> FrameFacts:
    return FrameFacts(
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.frame_bytes,
        header.uncompressed_length,
        COMPRESSION_NAMES[header.compression],
        header.producer_id,
    )


def _death(number: int, looked_up: LookedUp) -> LifeEvent:
    """What the headers of a dead letter say."""
    found = read_dead_letter(number, looked_up.row)
    original = found.original
    return LifeEvent(
        "dead_lettered",
        found.died_at_ms,
        found.group,
        attempt=found.attempts,
        error=found.last_error,
        reason=found.reason,
        origin=None if original is None else Place(original.topic, original.partition, original.offset),
    )
