"""Carrying out moves of dead letters: into the dead-letter topic, and back to work."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.dead_letters.headers import DeadLetterOrigin, to_dead_letter, to_message
from quiver.messages.stored_rows import StoredRow, read_rows
from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import PartitionNotFound, TopicExists, TopicNotFound
from quiver.model.limits import KIB
from quiver.model.message import NewMessage
from quiver.model.topic import Topic
from quiver.outbox.append import append_again, append_moved
from quiver.outbox.outbox import Move, mover_id
from quiver.outbox.packing import Placed, packed
from quiver.partition.partition import Partition
from quiver.queues.state.port import Dead, Run
from quiver.structures.offset_ranges import ranges_of
from quiver.system.clock import Clock
from quiver.topics.admin import TopicAdmin
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

if TYPE_CHECKING:
    from quiver.queues.partition.partition_queue import PartitionQueue

logger = logging.getLogger(__name__)

_SLICE_BYTES = 64 * KIB
_NEAR = 255
"""Messages between two that are moved that cost less to read over than to read again."""


class DeadLetterMover:
    """Every call may be a repeat; what is in its place already is recognised there."""

    def __init__(
        self,
        metadata: TopicCatalogue,
        partitions: Partitions,
        *,
        group_name: Callable[[int], str],
        topics: TopicAdmin,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._group_name = group_name
        self._topics = topics
        self._clock = clock
        self._making = asyncio.Lock()

    async def carry(self, queue: "PartitionQueue", move: Move) -> None:
        """Raises QuiverError when it has to be tried again."""
        if move.target.topic_id:
            await self._redrive(queue, move)
        else:
            await self._move_to_dlq(queue, move)

    async def _move_to_dlq(self, queue: "PartitionQueue", move: Move) -> None:
        try:
            topic = self._metadata.topic_by_id(queue.topic_id)
        except TopicNotFound:
            return
        group_id, dead = msgspec.convert(move.content, tuple[int, list[Dead]])
        target = await self._dead_letter_partition(topic, move.target.partition)
        group, now_ms = self._group_name(group_id), self._clock.now_ms()
        places = _places([(entry.start, entry.end) for entry in dead])
        ends = {offset: entry for entry in dead for offset in range(entry.start, entry.end)}

        def change(row: StoredRow) -> NewMessage:
            return to_dead_letter(row, DeadLetterOrigin(topic.name, queue.number, group, now_ms, ends[row.offset]))

        mover = mover_id("dead_letters", queue.topic_id, queue.number)
        async for frame in packed(_read(queue.partition, places, change)):
            await append_moved(
                target,
                mover=mover,
                sequence=move.sequence + frame.place,
                messages=frame.messages,
                schema_id=frame.schema_id,
            )

    async def _redrive(self, queue: "PartitionQueue", move: Move) -> None:
        places = _places(msgspec.convert(move.content, list[Run]))
        try:
            target = self._partitions.get(*move.target)
        except (TopicNotFound, PartitionNotFound) as problem:
            await self._give_up(queue, places, problem)
            return
        now_ms = self._clock.now_ms()
        mover = mover_id("redrive", queue.topic_id, queue.number)
        async for frame in packed(_read(queue.partition, places, lambda row: to_message(row, now_ms))):
            await append_moved(
                target,
                mover=mover,
                sequence=move.sequence + frame.place,
                messages=frame.messages,
                schema_id=frame.schema_id,
            )

    async def _give_up(self, queue: "PartitionQueue", places: dict[int, int], problem: Exception) -> None:
        """The topic was deleted after the letters had left for it: they become dead letters again."""
        logger.warning("dead letters of %s come back: %s", queue.partition.name, problem)
        async for frame in packed(_read(queue.partition, places, lambda row: row.message)):
            await append_again(queue.partition, messages=frame.messages, schema_id=frame.schema_id)

    async def _dead_letter_partition(self, topic: Topic, number: int) -> Partition:
        """A partition of the dead-letter topic, which has as many as the topic itself."""
        name, count = dead_letter_topic(topic.name), max(topic.config.partitions, number + 1)
        async with self._making:
            try:
                found = self._metadata.topic(name)
            except TopicNotFound:
                with contextlib.suppress(TopicExists):
                    await self._topics.create(name, _settings(topic, count))
                found = self._metadata.topic(name)
            if found.config.partitions < count:
                found = await self._topics.alter(name, {"partitions": count})
        return self._partitions.get(found.id, number)


def _settings(topic: Topic, count: int) -> dict[str, Any]:
    """Dead letters stay until somebody has looked at them."""
    return {
        "partitions": count,
        "durability": topic.config.durability,
        "segment_bytes": topic.config.segment_bytes,
        "retention": None,
        "retention_bytes": None,
        "cleanup": "delete",
        "ttl": None,
    }


def _places(runs: Sequence[Run]) -> dict[int, int]:
    """The place of each offset in the move. Offsets keep theirs also when messages before them are gone."""
    offsets = (offset for start, end in runs for offset in range(start, end))
    return {offset: place for place, offset in enumerate(offsets)}


async def _read(
    partition: Partition, places: dict[int, int], change: Callable[[StoredRow], NewMessage]
) -> AsyncIterator[list[Placed]]:
    """The messages that a move names, in its order."""

    def choose(row: StoredRow) -> Placed | None:
        place = places.get(row.offset)
        return None if place is None else Placed(place, row.schema_id, row.size, change(row))

    for start, end in ranges_of(places, gap=_NEAR):
        async for placed in read_rows(partition, start, end, choose, slice_bytes=_SLICE_BYTES):
            yield placed
