"""Dead letters: list, redrive, purge."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from itertools import islice

from quiver.dead_letters.error_shapes import ErrorGroups, grouped
from quiver.dead_letters.page import REMOVED_RUNS, DeadLetterPage, RemovedDeadLetterPage, first_page
from quiver.dead_letters.search import DeadLetterPartition, Search, dead_letter_size, find_dead_letters
from quiver.dead_letters.taking import DeadLettersTaken, TakenCount, limited, slices
from quiver.model.dead_letter import (
    SUFFIX,
    DeadLetter,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterId,
    dead_letter_topic,
    is_dead_letter_topic,
)
from quiver.model.errors import InvalidRequest, QuiverError, TopicNotFound
from quiver.model.names import check_name
from quiver.model.topic import Topic
from quiver.outbox.outbox import Move, Target
from quiver.queues.journal.events import DeadLetterOrigin
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.queues.state.port import Run, Settlement
from quiver.structures.murmur2 import partition_for
from quiver.structures.offset_ranges import ranges_of
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions


class DeadLetters:
    def __init__(self, metadata: TopicCatalogue, partitions: Partitions, queues: Queues) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._queues = queues
        self._taking: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """A lock per dead-letter topic, so that no dead letter is taken twice."""

    async def page(self, topic: str, search: Search, *, limit: int = 1000, skip: int = 0) -> DeadLetterPage:
        """A page of dead letters; empty for a topic without any. Large dead letters make a page shorter."""
        async with aclosing(self._walk(topic, search)) as walk:
            dead_letters, following = await first_page(walk, limit=limit, skip=skip)
        return DeadLetterPage(dead_letters, await self.count(topic), following)

    async def find(self, topic: str, search: Search, *, limit: int) -> list[DeadLetterCursor]:
        """The first that fit, without their contents."""
        async with aclosing(self._walk(topic, search)) as walk:
            return [each.cursor async for each in limited(walk, limit)]

    async def count(self, topic: str) -> int:
        """How many dead letters a topic has."""
        found = self._dead_letter_topic(topic)
        return 0 if found is None else await _total(self._sources(found))

    async def redrive(
        self, topic: str, search: Search, *, limit: int | None = None, to: str | None = None, dry_run: bool = False
    ) -> DeadLettersTaken:
        """Sends dead letters back to the topic and partition they came from, or to another topic; each once.

        When this returns, the moves are on disk and usually done.
        """
        found, goal = self.check_redrive(topic, to)

        def target(dead_letter: DeadLetter) -> Target:
            assert found is not None
            return self._target(found, dead_letter, goal)

        return await self._take(found, search, limit, target, dry_run=dry_run)

    def check_redrive(self, topic: str, to: str | None) -> tuple[Topic | None, Topic | None]:
        """The dead-letter topic, if there is one, and the topic to send to, if it is given."""
        found = self._dead_letter_topic(topic)
        goal = None if to is None else self._metadata.topic(to)
        if found is not None and goal is not None and goal.id == found.id:
            raise InvalidRequest(problem=f"{to!r} is the dead-letter topic itself; name another topic")
        return found, goal

    async def errors(self, topic: str, *, limit: int) -> ErrorGroups:
        """The newest dead letters, grouped by the shape of their error."""
        async with aclosing(self._walk(topic, Search(DeadLetterFilter(), newest_first=True))) as walk:
            return await grouped(walk, limit)

    def _walk(self, topic: str, search: Search) -> AsyncGenerator[DeadLetter, None]:
        found = self._dead_letter_topic(topic)
        return find_dead_letters([] if found is None else self._sources(found), search)

    async def purge(
        self, topic: str, search: Search, *, limit: int | None = None, dry_run: bool = False
    ) -> DeadLettersTaken:
        """Removes dead letters permanently."""
        return await self._take(self._dead_letter_topic(topic), search, limit, None, dry_run=dry_run)

    async def total(self) -> int:
        """Of all topics. What was deleted meanwhile or cannot be read counts as nothing."""
        total = 0
        async for topic in paced([topic for topic in self._metadata.topics() if is_dead_letter_topic(topic.name)]):
            with contextlib.suppress(QuiverError):
                total += await _total(self._sources(topic))
        return total

    async def removed(self, topic: str, start: DeadLetterId) -> RemovedDeadLetterPage:
        """A page of offsets that were redriven or purged, from `start` on; empty for a topic without dead letters."""
        found = self._dead_letter_topic(topic)
        runs: list[tuple[int, int, int]] = []
        for source in [] if found is None else self._sources(found):
            if source.number < start.partition:
                continue
            log = source.partition.log
            first = max(log.start_offset, start.offset if source.number == start.partition else 0)
            here = islice(source.removed.within(first, log.end_offset), REMOVED_RUNS - len(runs))
            runs += [(source.number, *run) for run in here]
            if len(runs) == REMOVED_RUNS:
                return RemovedDeadLetterPage(runs, DeadLetterId(source.number, runs[-1][2]))
        return RemovedDeadLetterPage(runs, None)

    async def _take(
        self,
        topic: Topic | None,
        search: Search,
        limit: int | None,
        target: Callable[[DeadLetter], Target] | None,
        *,
        dry_run: bool,
    ) -> DeadLettersTaken:
        taken = TakenCount(search)
        if topic is None:
            return taken.result(None)
        async with self._taking[topic.id], aclosing(find_dead_letters(self._sources(topic), search)) as walk:
            async for dead_letters, is_last in slices(walk, limit, dead_letter_size):
                if target is not None:
                    for dead_letter in dead_letters:
                        target(dead_letter)
                if not dry_run:
                    await self._remove(topic, dead_letters, target)
                taken.add(dead_letter.id for dead_letter in dead_letters)
                if is_last:
                    return taken.result(dead_letters[-1].cursor)
        return taken.result(None)

    async def _remove(
        self, topic: Topic, dead_letters: Sequence[DeadLetter], target: Callable[[DeadLetter], Target] | None
    ) -> None:
        by_partition: defaultdict[int, list[DeadLetter]] = defaultdict(list)
        for dead_letter in dead_letters:
            by_partition[dead_letter.partition].append(dead_letter)
        for number, held in by_partition.items():
            queue = await self._queues.partition_queue(topic, number)
            moves = [] if target is None else _moves(queue, held, target)
            await queue.remove_dead_letters(_runs(held), moves, _origins(held))
            await queue.dead_letters_arrived(Settlement([], moves=moves))
            await _free_room(queue)

    def _target(self, found: Topic, dead_letter: DeadLetter, goal: Topic | None) -> Target:
        """The original partition if there is one; otherwise that of the key."""
        original = dead_letter.original
        if goal is None:
            goal = self._metadata.topic(found.name.removesuffix(SUFFIX) if original is None else original.topic)
        count = goal.config.partitions
        if original is not None and original.topic == goal.name and original.partition < count:
            return Target(goal.id, original.partition)
        if dead_letter.key is not None:
            return Target(goal.id, partition_for(dead_letter.key, count))
        return Target(goal.id, dead_letter.partition % count)

    def _dead_letter_topic(self, topic: str) -> Topic | None:
        """None if a topic has no dead letters yet. Raises TopicNotFound if there is neither the topic nor a dead
        letter of it."""
        try:
            return self._metadata.topic(dead_letter_topic(check_name(topic)))
        except TopicNotFound:
            self._metadata.topic(topic)
            return None

    def _sources(self, topic: Topic) -> list[DeadLetterPartition]:
        known = self._queues.partition_queues(topic.id)
        return [
            DeadLetterPartition(number, partition, known[number].removed)
            if number in known
            else DeadLetterPartition(number, partition)
            for number, partition in self._partitions.owned(topic.id)
        ]


def _moves(
    queue: PartitionQueue, dead_letters: Iterable[DeadLetter], target: Callable[[DeadLetter], Target]
) -> list[Move]:
    """A move for each target and priority, begun."""
    by_target: defaultdict[tuple[Target, int], list[DeadLetter]] = defaultdict(list)
    for dead_letter in dead_letters:
        by_target[target(dead_letter), dead_letter.priority].append(dead_letter)
    return [queue.outbox.begin(goal, len(held), _runs(held)) for (goal, _), held in by_target.items()]


def _runs(dead_letters: Sequence[DeadLetter]) -> list[Run]:
    """The offsets of some dead letters of one partition, in order."""
    return ranges_of(sorted(dead_letter.offset for dead_letter in dead_letters))


def _origins(dead_letters: Sequence[DeadLetter]) -> list[DeadLetterOrigin | None]:
    """Where each came from, in the order of their offsets."""
    in_order = sorted(dead_letters, key=lambda dead_letter: dead_letter.offset)
    return [
        None if (origin := each.original) is None else (origin.topic, origin.partition, origin.offset, each.group)
        for each in in_order
    ]


async def _free_room(queue: PartitionQueue) -> None:
    """Removes the front of the log as far as its dead letters were purged or their moves are done."""
    log = queue.partition.log
    on_their_way = (start for move in queue.outbox.open.values() if move.target.topic_id for start, _ in move.content)
    free = min(queue.removed.first_gap(log.start_offset), min(on_their_way, default=log.end_offset))
    if free > log.start_offset and log.failure is None:
        await queue.partition.drop_below(free)


async def _total(sources: Sequence[DeadLetterPartition]) -> int:
    total = 0
    for source in sources:
        log, end_offset = source.partition.log, source.partition.committed.high_watermark
        if log.start_offset < end_offset:
            held = sum(await log.count_by_priority(log.start_offset))
            total += held - sum(end - start for start, end in source.removed.within(log.start_offset, end_offset))
    return max(0, total)
