"""Writes spans of sampled messages to the topic of traces, in the background.

An append only notes that a frame has sampled messages: one bit is tested. Everything else happens later, in rounds:
the frame is read from the log, and what became of its messages from the delivery journal. What is noted is bounded;
what is too much is dropped and counted. A broker that is killed loses the spans of its last round, and no message.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quiver.groups.service import Groups
from quiver.life.journal_index import JournalIndex, JournalRecord
from quiver.life.log_frames import find_frame
from quiver.messages.stored_rows import frame_rows
from quiver.model.errors import Closed, InvalidFrame, QuiverError, TopicExists, TopicNotFound
from quiver.model.limits import KIB
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.model.trace.span import Span, TraceStats
from quiver.model.trace.traceparent import TRACEPARENT, parse_traceparent
from quiver.outbox.outbox import source_of
from quiver.queues.service import Queues
from quiver.records.build import build_frame
from quiver.records.header import FrameHeader, unpack_header
from quiver.records.read import open_frame
from quiver.structures.murmur2 import partition_for
from quiver.system.clock import Clock
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.topics.admin import TopicAdmin
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.traces.followed import Followed, FollowedMessage
from quiver.traces.spans import SampledMessage

logger = logging.getLogger(__name__)

TRACES_TOPIC = "__traces"
SETTINGS = {"partitions": 4, "retention": "7d", "retention_bytes": 256 * KIB * KIB, "durability": "interval"}
"""One GiB for all of its partitions."""
MOST_NOTED = 10_000
MOST_FOLLOWED = 10_000
_EVERY_SECONDS = 0.5
_FRAMES_A_ROUND = 1_000
_ROWS_A_FRAME = 1_000
_KEY_SHOWN = 200


class Noted(NamedTuple):
    """A frame that has sampled messages."""

    place: TopicPartition
    base_offset: int
    journal_position: int
    """No record of the delivery journal before this one is about its messages."""


class TraceCollector:
    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        queues: Queues,
        groups: Groups,
        topics: TopicAdmin,
        *,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._queues = queues
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self._noted: deque[Noted] = deque()
        self._followed = Followed(MOST_FOLLOWED)
        self._written = self._dropped = 0
        self._turn = asyncio.Lock()
        self.task = PeriodicTask("traces", self._round, every_seconds=_EVERY_SECONDS)
        partitions.on_sampled = self.note

    def note(self, place: TopicPartition, header: FrameHeader) -> None:
        """A frame with sampled messages was appended just now. Called on the loop, between two requests."""
        if len(self._noted) >= MOST_NOTED:
            self._dropped += header.record_count
            return
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        position = 0 if queue is None else queue.journal.log.end_offset
        self._noted.append(Noted(place, header.base_offset, position))

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        """Writes what is known. Called while partitions and queues are still open."""
        await self.task.stop()
        with contextlib.suppress(QuiverError, OSError):
            await self.flush()

    def stats(self) -> TraceStats:
        return TraceStats(
            enabled=True,
            spans_in_buffer=len(self._noted),
            buffer_capacity=MOST_NOTED,
            traces_indexed=len(self._followed),
            spans_written=self._written,
            spans_dropped=self._dropped,
        )

    async def flush(self) -> None:
        """Everything that happened before is written when this returns."""
        failures = Failures()
        while True:
            await self._round(failures)
            if not self._noted:
                break
        failures.check()

    async def _round(self, failures: Failures) -> None:
        if not self._noted and not self._followed:
            return
        async with self._turn:
            spans: list[Span] = []
            try:
                await self._collect(spans, failures)
                if spans:
                    with failures.of(f"writing to {TRACES_TOPIC}"):
                        await self._write(spans)
            finally:
                self._dropped += len(spans)

    async def _collect(self, spans: list[Span], failures: Failures) -> None:
        """Adds the spans of what is new."""
        for _ in range(min(len(self._noted), _FRAMES_A_ROUND)):
            noted = self._noted.popleft()
            with failures.of(f"spans of topic id {noted.place.topic_id}"):
                spans += await self._begin(noted)
        for place in list(self._followed.partitions):
            with failures.of(f"spans of topic id {place.topic_id}"):
                spans += await self._follow(place)

    async def _begin(self, noted: Noted) -> list[Span]:
        """The spans of the append of a frame's messages; their deliveries are followed from now on."""
        place = noted.place
        try:
            topic = self._catalogue.topic_by_id(place.topic_id)
            partition = self._partitions.get(*place)
        except QuiverError:
            return []

        def choose(data: bytes | memoryview, position: int, header: FrameHeader) -> list[SampledMessage]:
            return list(_sampled(data, position, header, topic, place.partition))

        end = partition.committed.high_watermark
        try:
            found = await find_frame(partition.log, noted.base_offset, choose, end=end, max_bytes=1) or []
        except (InvalidFrame, Closed):
            return []
        return [span for message in found for span in await self._begin_message(noted, message)]

    async def _begin_message(self, noted: Noted, message: SampledMessage) -> list[Span]:
        source = source_of(message.producer_id)
        spans = [message.arrival(None if source is None else source[0])]
        followed = FollowedMessage(message, self._groups.name_of)
        partition = self._followed.add(noted.place, followed, noted.journal_position)
        if noted.journal_position < partition.position:  # the journal was read further already, for others
            for record in await self._records(noted.place, noted.journal_position, partition.position):
                spans += followed.apply(record)
        return spans

    async def _follow(self, place: TopicPartition) -> list[Span]:
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        if queue is None:
            if place.topic_id not in {topic.id for topic in self._catalogue.topics()}:
                self._followed.forget(place)
            return []
        partition, end = self._followed.partitions[place], queue.journal.log.end_offset
        spans: list[Span] = []
        if partition.position < end:
            for record in await self._records(place, partition.position, end):
                spans += partition.apply(record)
            partition.position = end
        return spans

    async def _records(self, place: TopicPartition, start: int, end: int) -> list[JournalRecord]:
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        return [] if queue is None else await JournalIndex(queue.journal.log).records_between(start, end)

    async def _write(self, spans: list[Span]) -> None:
        """Takes those that are written out of the list."""
        topic = await self._topic()
        while spans:
            part = spans[:_ROWS_A_FRAME]
            await self._append(topic, part)
            del spans[: len(part)]
            self._written += len(part)

    async def _append(self, topic: Topic, spans: list[Span]) -> None:
        by_partition: dict[int, list[Span]] = {}
        for span in spans:
            number = partition_for(span.trace_id.encode(), topic.config.partitions)
            by_partition.setdefault(number, []).append(span)
        for number, rows in by_partition.items():
            frame = build_frame(
                [msgspec.json.encode(row) for row in rows],
                keys=[row.trace_id.encode() for row in rows],
                timestamps_ms=[row.end_ms for row in rows],
                compression="zstd",
            )
            await self._partitions.get(topic.id, number).append(frame, unpack_header(frame))

    async def _topic(self) -> Topic:
        """Created with the first span."""
        try:
            return self._catalogue.topic(TRACES_TOPIC)
        except TopicNotFound:
            with contextlib.suppress(TopicExists):
                await self._topics.create(TRACES_TOPIC, SETTINGS)
            return self._catalogue.topic(TRACES_TOPIC)


def _sampled(
    data: bytes | memoryview, position: int, header: FrameHeader, topic: Topic, number: int
) -> Iterator[SampledMessage]:
    for row in frame_rows(open_frame(data, position, header=header), header.base_offset, header.next_offset):
        parent = parse_traceparent((row.message.headers or {}).get(TRACEPARENT))
        if parent is not None and parent.is_sampled:
            yield SampledMessage(
                parent,
                topic.name,
                number,
                row.offset,
                _shown_key(row.message.key),
                row.message.timestamp_ms or 0,
                row.append_time_ms,
                header.producer_id,
            )


def _shown_key(key: bytes | None) -> str:
    try:
        return "" if key is None else key[:_KEY_SHOWN].decode()
    except UnicodeDecodeError:
        return ""
