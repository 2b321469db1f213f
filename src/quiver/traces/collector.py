"""Writes spans of sampled messages to the topic of traces, in the background.

An append notes which messages of a frame are in traces, and only if a bit of the frame says that there are some.
Everything else happens later, in rounds: the spans of all frames are built together, and what became of their
messages is read from the delivery journal. What is noted is bounded; what is too much is dropped and counted. A
broker that is killed loses the spans of its last round, and no message.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Protocol

from quiver.groups.service import Groups
from quiver.life.journal_index import JournalIndex, JournalRecord
from quiver.life.log_frames import find_frame
from quiver.model.errors import QuiverError, TopicExists, TopicNotFound
from quiver.model.limits import KIB
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.model.trace.span import TraceStats
from quiver.queues.service import Queues
from quiver.records.header import FrameHeader, StampedFrame, unpack_header
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.topics.admin import TopicAdmin
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.traces.arrivals import Arrivals, arrivals
from quiver.traces.followed import Followed, FollowedPartition, RunEvent
from quiver.traces.noted import Noted, NotedFrames, UnopenedFrame
from quiver.traces.sampled_rows import SampledRows, stored_rows
from quiver.traces.span_frames import SpanFrame, span_frames
from quiver.traces.span_rows import SpanRows
from quiver.traces.spans import event_spans

TRACES_TOPIC = "__traces"
SETTINGS = {"partitions": 4, "retention": "7d", "retention_bytes": 256 * KIB * KIB, "durability": "interval"}
"""One GiB for all of its partitions."""
MOST_NOTED = 10_000
MOST_MESSAGES_NOTED = 200_000
MOST_FOLLOWED = 100_000
MOST_RUNS_FOLLOWED = 10_000
_EVERY_SECONDS = 0.5
_LAST_SECONDS = 1.0


class SpanTarget(Protocol):
    """Where spans are written to."""

    async def create(self, name: str, settings: Mapping[str, Any]) -> object:
        """Creates the topic. Raises TopicExists."""

    async def append(self, topic: Topic, frame: SpanFrame) -> None: ...


class _OwnPartitions:
    def __init__(self, partitions: Partitions, topics: TopicAdmin) -> None:
        self._partitions = partitions
        self.create = topics.create

    async def append(self, topic: Topic, frame: SpanFrame) -> None:
        partition = self._partitions.get(topic.id, frame.partition)
        await partition.append(frame.frame, unpack_header(frame.frame))


class TraceCollector:
    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        queues: Queues,
        groups: Groups,
        topics: TopicAdmin,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._queues = queues
        self._groups = groups
        self.target: SpanTarget = _OwnPartitions(partitions, topics)
        """Set while the broker is built, if other processes own partitions of the topic."""
        self._noted = Noted(MOST_NOTED, MOST_MESSAGES_NOTED)
        self._followed = Followed(MOST_FOLLOWED, MOST_RUNS_FOLLOWED)
        self._written = self._dropped = 0
        self._turn = asyncio.Lock()
        self.task = PeriodicTask("traces", self._round, every_seconds=_EVERY_SECONDS)
        partitions.on_sampled = self.note

    def note(self, place: TopicPartition, stamped: StampedFrame) -> None:
        """A frame with sampled messages was appended just now. Called on the loop, between two requests."""
        position = 0
        if place not in self._noted.partitions:
            queue = self._queues.partition_queues(place.topic_id).get(place.partition)
            position = 0 if queue is None else queue.journal.log.end_offset
        self._dropped += self._noted.add(place, stamped, position)

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        """Writes what is known. Called while partitions and queues are still open."""
        await self.task.stop()
        with contextlib.suppress(QuiverError, OSError, TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):  # the owner of a partition may have stopped before
                await self.flush()

    def stats(self) -> TraceStats:
        return TraceStats(
            enabled=True,
            spans_in_buffer=self._noted.frame_count,
            buffer_capacity=MOST_NOTED,
            traces_indexed=len(self._followed),
            spans_written=self._written,
            spans_dropped=self._dropped,
        )

    async def flush(self) -> None:
        """Everything that happened before is written when this returns."""
        failures = Failures()
        await self._round(failures)
        failures.check()

    async def _round(self, failures: Failures) -> None:
        """A round that is cancelled goes on until it has ended: it has threads change what is followed."""
        if self._noted.frame_count or len(self._followed):
            await asyncio.shield(self._whole_round(failures))

    async def _whole_round(self, failures: Failures) -> None:
        async with self._turn:
            spans: list[SpanRows] = []
            try:
                await self._begin(self._noted.take(), spans, failures)
                for place in list(self._followed.partitions):
                    with failures.of(f"spans of topic id {place.topic_id}"):
                        await self._follow(place, spans)
                self._followed.limit()
                if spans:
                    with failures.of(f"writing to {TRACES_TOPIC}"):
                        await self._write(spans)
            finally:
                self._dropped += sum(len(rows.end_ms) for rows in spans)

    # what was appended

    async def _begin(
        self, taken: Mapping[TopicPartition, NotedFrames], spans: list[SpanRows], failures: Failures
    ) -> None:
        """The spans of appends; deliveries of their messages are followed from now on."""
        for place, noted in taken.items():
            self._dropped += noted.message_count
            with failures.of(f"spans of topic id {place.topic_id}"):
                await self._begin_partition(place, noted, spans)
                self._dropped -= noted.message_count

    async def _begin_partition(self, place: TopicPartition, noted: NotedFrames, spans: list[SpanRows]) -> None:
        arrived = await self._arrivals(place, noted)
        if arrived is None:
            return
        spans.append(arrived.rows)
        new = FollowedPartition(arrived.messages, noted.journal_position, self._groups.name_of)
        followed = self._followed.partitions.get(place)
        if followed is not None and new.position < followed.position:
            await self._catch_up(place, new, followed.position, spans)
        self._followed.add(place, new)

    async def _arrivals(self, place: TopicPartition, noted: NotedFrames) -> Arrivals | None:
        try:
            topic = self._catalogue.topic_by_id(place.topic_id)
        except QuiverError:
            return None
        frames: list[SampledRows] = []
        for frame in noted.frames:
            opened = await self._open(place, frame.header) if isinstance(frame, UnopenedFrame) else frame
            if opened is not None:
                frames.append(opened)
        if not frames:
            return None
        return await asyncio.to_thread(arrivals, topic.name, place.partition, frames)

    async def _open(self, place: TopicPartition, header: FrameHeader) -> SampledRows | None:
        """The sampled messages of a frame that has to be read from the log."""
        try:
            partition = self._partitions.get(*place)
            end = partition.log.end_offset
            found = await find_frame(partition.log, header.base_offset, stored_rows, end=end, max_bytes=1)
        except QuiverError:
            return None
        return found if found is not None and found.header.base_offset == header.base_offset else None

    # what became of it

    async def _follow(self, place: TopicPartition, spans: list[SpanRows]) -> None:
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        if queue is None:
            if place.topic_id not in {topic.id for topic in self._catalogue.topics()}:
                self._followed.forget(place)
            return
        partition, end = self._followed.partitions[place], queue.journal.log.end_offset
        if partition.position < end:
            await self._catch_up(place, partition, end, spans)

    async def _catch_up(
        self, place: TopicPartition, partition: FollowedPartition, end: int, spans: list[SpanRows]
    ) -> None:
        """Reads the journal for the messages of a partition, up to its offset `end`."""
        records = await self._records(place, partition.position, end)
        found = await asyncio.to_thread(_applied, partition, records) if records else None
        partition.position = end
        if found is not None:
            spans.append(found)

    async def _records(self, place: TopicPartition, start: int, end: int) -> list[JournalRecord]:
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        return [] if queue is None else await JournalIndex(queue.journal.log).records_between(start, end)

    # writing

    async def _write(self, spans: list[SpanRows]) -> None:
        """Leaves the list empty, or raises."""
        topic = await self._topic()
        frames = await asyncio.to_thread(span_frames, spans, topic.config.partitions)
        spans.clear()
        try:
            while frames:
                await self.target.append(topic, frames[-1])
                self._written += frames.pop().span_count
        finally:
            self._dropped += sum(frame.span_count for frame in frames)

    async def _topic(self) -> Topic:
        """Created with the first span."""
        try:
            return self._catalogue.topic(TRACES_TOPIC)
        except TopicNotFound:
            with contextlib.suppress(TopicExists):
                await self.target.create(TRACES_TOPIC, SETTINGS)
            return self._catalogue.topic(TRACES_TOPIC)


def _applied(partition: FollowedPartition, records: list[JournalRecord]) -> SpanRows | None:
    happened: list[RunEvent] = [event for record in records for event in partition.apply(record)]
    return event_spans(partition, happened)
