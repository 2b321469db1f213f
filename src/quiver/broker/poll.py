"""Poll: a group member reads over plain requests, and the broker remembers where it was."""

import asyncio
from typing import NamedTuple

from quiver.broker.browse import Browse
from quiver.broker.groups import Groups
from quiver.broker.partitions import Partitions
from quiver.broker.readers import Readers
from quiver.groups.assignors import TopicPartition
from quiver.groups.service import MemberView
from quiver.metadata.service import MetadataService
from quiver.model.errors import QuiverError
from quiver.model.limits import MIB
from quiver.model.message import StoredMessage
from quiver.system.clock import Clock

_ANSWER_EARLY_SECONDS = 0.1
"""A poll answers this much before its timeout, so that the client's own timeout does not come first."""
_POLL_BYTES = 16 * MIB
"""A poll begins no further partition when it holds this much."""


class PolledPartition(NamedTuple):
    topic: str
    partition: int
    messages: list[StoredMessage]
    next_offset: int
    topic_id: int


class Poll:
    def __init__(
        self, groups: Groups, browse: Browse, metadata: MetadataService, partitions: Partitions, *, clock: Clock
    ) -> None:
        self._groups = groups
        self._browse = browse
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self.readers = Readers(groups.service)

    async def poll(self, group: str, member_id: str, *, timeout_ms: int, limit: int) -> list[PolledPartition]:
        """Messages after those this member got last, waiting for some; counts as a sign of life all the while.

        New assignments are taken over, and partitions that move away are let go of, without a word to the caller.
        """
        deadline = self._clock.monotonic() + max(0.0, timeout_ms / 1000 - _ANSWER_EARLY_SECONDS)
        while True:
            view = await self._sign_of_life(group, member_id)
            news, changed = asyncio.Event(), self._groups.service.changed(group)
            watched = [self._partitions.get(*p) for p in view.assigned if self._groups.topic_name(p.topic_id)]
            for partition in watched:
                partition.watch(news.set)
            try:
                view, found = await self._read(group, member_id, limit)
                remaining = deadline - self._clock.monotonic()
                if found or remaining <= 0:
                    self.readers.tell(group, view)
                    return found
                await _first_of(news, changed, min(remaining, self._pause_seconds(group, member_id)))
            finally:
                for partition in watched:
                    partition.unwatch(news.set)

    def give_back(self, group: str, member_id: str, polled: list[PolledPartition]) -> None:
        """These messages did not reach the member: the next poll gets them again, unless it has moved on since."""
        positions = self.readers.positions(group, member_id)
        for part in polled:
            partition = TopicPartition(part.topic_id, part.partition)
            if positions.get(partition) == part.next_offset:
                positions[partition] = part.messages[0].offset

    async def _sign_of_life(self, group: str, member_id: str) -> MemberView:
        view = await self._groups.service.heartbeat(group, member_id)
        if view.revoke:
            view = await self._groups.service.heartbeat(group, member_id, revoked=view.revoke)
        return view

    async def _read(self, group: str, member_id: str, limit: int) -> tuple[MemberView, list[PolledPartition]]:
        """Reads and moves on in one step: a poll that is given up while it reads has moved nothing."""
        reader = self.readers.of(group, member_id)
        async with reader.lock:
            view = self._groups.service.view(group, member_id)
            positions = self._take_over(group, view, reader.positions)
            found = await self._read_from(positions, limit)
            reader.positions = positions
            return view, found

    def _take_over(self, group: str, view: MemberView, old: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the member reads on: after what it got last, or where the group is when that is further."""
        readable = [p for p in view.assigned if self._groups.topic_name(p.topic_id) is not None]
        begin = {partition: self._groups.next_offset(group, partition) for partition in sorted(readable)}
        kept = {partition: max(offset, begin[partition]) for partition, offset in old.items() if partition in begin}
        return kept | {partition: offset for partition, offset in begin.items() if partition not in kept}

    async def _read_from(self, positions: dict[TopicPartition, int], limit: int) -> list[PolledPartition]:
        """Moves the positions. Damaged partitions do not keep the others from being read."""
        found: list[PolledPartition] = []
        problem: QuiverError | None = None
        size = 0
        for partition, offset in list(positions.items()):
            if limit <= 0 or size >= _POLL_BYTES:
                break
            try:
                topic = self._metadata.topic_by_id(partition.topic_id)
                page = await self._browse.read(
                    topic, partition.partition, offset=offset, limit=limit, from_time_ms=None, to_time_ms=None
                )
            except QuiverError as error:
                if self._groups.topic_name(partition.topic_id) is not None:
                    problem = error
                continue
            positions[partition] = page.next_offset
            if page.messages:
                # To the end with it, so that a full partition does not starve the others.
                positions[partition] = positions.pop(partition)
                found.append(
                    PolledPartition(topic.name, partition.partition, page.messages, page.next_offset, topic.id)
                )
                limit -= len(page.messages)
                size += sum(len(message.value or b"") for message in page.messages)
        if problem is not None and not found:
            raise problem
        return found

    def _pause_seconds(self, group: str, member_id: str) -> float:
        member = self._groups.service.group(group).membership.member(member_id)
        return member.subscription.session_ms / 3000


async def _first_of(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
