"""Moves of dead letters: into the dead-letter topic, and back by a redrive."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from quiver.dead_letters.headers import DeadLetterOrigin, dead_letter_settings, to_dead_letter, to_message
from quiver.groups.service import Groups
from quiver.messages.stored_rows import StoredRow, read_rows
from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import PartitionNotFound, TopicExists, TopicNotFound
from quiver.model.limits import KIB
from quiver.model.message import NewMessage
from quiver.model.topic import Topic
from quiver.outbox.append import append_again
from quiver.outbox.outbox import Move, Target, mover_id
from quiver.outbox.packing import Placed, packed
from quiver.outbox.targets import MovedFrame, MoveTargets
from quiver.partition.partition import Partition
from quiver.queues.journal.moves import MoveSource
from quiver.queues.state.port import Dead, Run
from quiver.structures.offset_ranges import ranges_of
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue

logger = logging.getLogger(__name__)

_SLICE_BYTES = 64 * KIB
_NEAR = 255
"""A gap of this many messages is cheaper to read through than to skip with another read."""


class TopicChanges(Protocol):
    """Who creates dead-letter topics, and adds partitions to them. See `TopicAdmin`."""

    async def create(self, name: str, settings: Mapping[str, Any]) -> Topic: ...

    async def alter(self, name: str, settings: Mapping[str, Any]) -> Topic: ...


class DeadLetterMover:
    """Every call may be a repeat: the target recognises messages that it has already."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        targets: MoveTargets,
        topics: TopicChanges,
        *,
        groups: Groups,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._targets = targets
        self._groups = groups
        self.topics = topics
        """Set while the broker is built."""
        self._clock = clock
        self._making = asyncio.Lock()

    async def carry(self, source: MoveSource, move: Move) -> None:
        """Raises QuiverError if it has to be tried again."""
        if move.target.topic_id:
            await self._redrive(source, move)
        else:
            await self._move_to_dlq(source, move)

    async def _move_to_dlq(self, source: MoveSource, move: Move) -> None:
        try:
            topic = self._catalogue.topic_by_id(source.place.topic_id)
        except TopicNotFound:
            return
        group_id, dead = msgspec.convert(move.content, tuple[int, list[Dead]])
        target = await self._dead_letter_target(topic, move.target.partition)
        group, now_ms = self._groups.name_of(group_id) or str(group_id), self._clock.now_ms()
        places = _places([(entry.start, entry.end) for entry in dead])
        ends = {offset: entry for entry in dead for offset in range(entry.start, entry.end)}

        def change(row: StoredRow) -> NewMessage:
            origin = DeadLetterOrigin(topic.name, source.place.partition, group, now_ms, ends[row.offset])
            return to_dead_letter(row, origin)

        mover = mover_id("dead_letters", source.place.topic_id, source.place.partition)
        await self._append(target, mover, move, _read(source.partition, places, change))

    async def _redrive(self, source: MoveSource, move: Move) -> None:
        places = _places(msgspec.convert(move.content, list[Run]))
        now_ms = self._clock.now_ms()
        mover = mover_id("redrive", source.place.topic_id, source.place.partition)
        slices = _read(source.partition, places, lambda row: to_message(row, now_ms))
        try:
            await self._append(move.target, mover, move, slices)
        except (TopicNotFound, PartitionNotFound) as problem:
            await self._give_up(source, places, problem)

    async def _append(self, target: Target, mover: int, move: Move, slices: AsyncIterator[list[Placed]]) -> None:
        """Appends a move's messages in frames whose sequences tell their places, so that a repeat is recognised."""
        async for frame in packed(slices):
            moved = MovedFrame(mover, move.sequence + frame.place, frame.messages, frame.schema_id)
            await self._targets.append(target, moved)

    async def _give_up(self, source: MoveSource, places: dict[int, int], problem: Exception) -> None:
        """The topic was deleted after the redrive was decided: the messages become dead letters again."""
        logger.warning("dead letters of %s come back: %s", source.partition.name, problem)
        async for frame in packed(_read(source.partition, places, lambda row: row.message)):
            await append_again(source.partition, messages=frame.messages, schema_id=frame.schema_id)

    async def _dead_letter_target(self, topic: Topic, number: int) -> Target:
        """A partition of the dead-letter topic, which has as many as the topic itself."""
        name, count = dead_letter_topic(topic.name), max(topic.config.partitions, number + 1)
        async with self._making:
            try:
                found = self._catalogue.topic(name)
            except TopicNotFound:
                with contextlib.suppress(TopicExists):
                    await self.topics.create(name, dead_letter_settings(topic, count))
                found = self._catalogue.topic(name)
            if found.config.partitions < count:
                found = await self.topics.alter(name, {"partitions": count})
        return Target(found.id, number)


def _places(runs: Sequence[Run]) -> dict[int, int]:
    """The place of each offset in the move. Offsets keep their places even if messages before them are gone."""
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
