"""Poll: a group member reads over plain requests, and the broker remembers where it was."""

import asyncio
from typing import NamedTuple

from quiver.broker.browse import Browse
from quiver.broker.groups import Groups
from quiver.broker.partitions import Partitions
from quiver.groups.assignors import TopicPartition
from quiver.groups.service import MemberView
from quiver.metadata.service import MetadataService
from quiver.model.errors import QuiverError
from quiver.model.message import StoredMessage
from quiver.system.clock import Clock

_ANSWER_EARLY_SECONDS = 0.1
"""A poll answers this much before its timeout, so that the client's own timeout does not come first."""


class PolledPartition(NamedTuple):
    topic: str
    partition: int
    messages: list[StoredMessage]
    next_offset: int


class Poll:
    def __init__(
        self, groups: Groups, browse: Browse, metadata: MetadataService, partitions: Partitions, *, clock: Clock
    ) -> None:
        self._groups = groups
        self._browse = browse
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._positions: dict[tuple[str, str], dict[TopicPartition, int]] = {}

    async def poll(self, group: str, member_id: str, *, timeout_ms: int, limit: int) -> list[PolledPartition]:
        """Messages after those this member got last, waiting for some; counts as a sign of life all the while.

        New assignments are taken over, and partitions that move away are let go of, without a word to the caller.
        """
        deadline = self._clock.monotonic() + max(0.0, timeout_ms / 1000 - _ANSWER_EARLY_SECONDS)
        while True:
            view = await self._sign_of_life(group, member_id)
            positions = self._take_over(group, view)
            news, changed = asyncio.Event(), self._groups.service.changed(group)
            watched = [self._partitions.get(*p) for p in positions if self._groups.topic_name(p.topic_id)]
            for partition in watched:
                partition.watch(news.set)
            try:
                found = await self._read(positions, limit)
                remaining = deadline - self._clock.monotonic()
                if found or remaining <= 0:
                    return found
                await _first_of(news, changed, min(remaining, self._pause_seconds(group, member_id)))
            finally:
                for partition in watched:
                    partition.unwatch(news.set)

    async def _sign_of_life(self, group: str, member_id: str) -> MemberView:
        view = await self._groups.service.heartbeat(group, member_id)
        if view.revoke:
            view = await self._groups.service.heartbeat(group, member_id, revoked=view.revoke)
        return view

    def _take_over(self, group: str, view: MemberView) -> dict[TopicPartition, int]:
        members = self._groups.service.group(group).membership.members
        for key in [key for key in self._positions if key[0] == group and key[1] not in members]:
            del self._positions[key]
        old = self._positions.get((group, view.member_id), {})
        new = {partition: offset for partition, offset in old.items() if partition in view.assigned}
        for partition in sorted(view.assigned - new.keys()):
            new[partition] = self._groups.next_offset(group, partition)
        self._positions[group, view.member_id] = new
        return new

    async def _read(self, positions: dict[TopicPartition, int], limit: int) -> list[PolledPartition]:
        found: list[PolledPartition] = []
        for partition, offset in list(positions.items()):
            if limit <= 0:
                break
            try:
                topic = self._metadata.topic_by_id(partition.topic_id)
                page = await self._browse.read(
                    topic, partition.partition, offset=offset, limit=limit, from_time_ms=None, to_time_ms=None
                )
            except QuiverError:
                if found:
                    break
                raise
            positions[partition] = page.next_offset
            if page.messages:
                # To the end with it, so that a full partition does not starve the others.
                positions[partition] = positions.pop(partition)
                found.append(PolledPartition(topic.name, partition.partition, page.messages, page.next_offset))
                limit -= len(page.messages)
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
