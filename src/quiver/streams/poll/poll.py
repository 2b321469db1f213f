"""Poll: a group member reads over HTTP. The messages are leased to it, so that it can ack single messages.

Polls run where the group's members and commits are; `streams.poll.takes` leases messages where the partitions are.
`streams.positions` knows the position: a commit settles everything below it, acks move it over everything that is
settled without a gap, and messages that are neither committed nor acked are delivered again.
"""

import asyncio
from collections.abc import Collection

from quiver.groups.service import Groups
from quiver.model.limits import PAGE_BYTES
from quiver.model.names import TopicPartition
from quiver.streams.member_view import MemberView
from quiver.streams.owners.port import Commit, PartToTake, PolledPartition, TakenMessages
from quiver.streams.poll.sessions import PollSession, PollSessions
from quiver.streams.service import Streams
from quiver.system.clock import Clock

_ANSWER_EARLY_SECONDS = 0.1
"""A poll returns this much before its timeout, so that the client's own timeout does not come first."""


class MemberClaim:
    """Of a member of this process's group, as it is whenever it is asked."""

    def __init__(self, streams: Streams, group: str, view: MemberView) -> None:
        self.group, self.member_id, self.generation = group, view.member_id, view.generation
        self._streams = streams
        self._group_id = streams.groups.group(group).id

    def is_current(self, partition: TopicPartition) -> bool:
        return partition in self._streams.members.view(self.group, self.member_id).assigned

    def commit(self, partition: TopicPartition) -> Commit | None:
        return self._streams.positions.commit(self._group_id, partition)


class Poll:
    def __init__(self, groups: Groups, streams: Streams, *, clock: Clock) -> None:
        self._groups = groups
        self._streams = streams
        self._owners = streams.owners
        self._clock = clock
        self.sessions = PollSessions(groups, streams)

    async def poll(self, group: str, member_id: str, *, timeout_ms: int, limit: int) -> list[PolledPartition]:
        """Messages after those that this member has leased; waits for some. It counts as a heartbeat the whole time.

        The member's assignment is followed meanwhile: partitions are taken and given up without telling the caller.
        """
        deadline = self._clock.monotonic() + max(0.0, timeout_ms / 1000 - _ANSWER_EARLY_SECONDS)
        while True:
            view = await self._sign_of_life(group, member_id)
            changed = self._streams.members.changed(group)
            watch = self._owners.partitions.watch(self._groups.group(group).id, view.assigned)
            try:
                view, found = await self._read(group, member_id, limit)
                if not found and watch.extend():
                    view, found = await self._read(group, member_id, limit)
                remaining = deadline - self._clock.monotonic()
                if found or remaining <= 0:
                    self.sessions.tell(group, view)
                    return found
                pause = min(remaining, self._pause_seconds(group, member_id), watch.seconds_to_retry())
                await _first_of(watch.news, changed, pause)
            finally:
                watch.close()

    async def give_back(self, polled: list[PolledPartition]) -> None:
        """These messages did not reach the member: the next poll gets them again."""
        await self._owners.partitions.give_back(polled)

    async def _sign_of_life(self, group: str, member_id: str) -> MemberView:
        view = await self._streams.members.heartbeat(group, member_id)
        if view.revoke:
            view = await self._streams.members.heartbeat(group, member_id, revoked=view.revoke)
        return view

    async def _read(self, group: str, member_id: str, limit: int) -> tuple[MemberView, list[PolledPartition]]:
        """One poll of a member at a time; a cancelled one gives back what it took."""
        session = self.sessions.of(group, member_id)
        async with session.lock:
            view, taken = self._streams.members.view(group, member_id), TakenMessages()
            try:
                await self._take(group, view, session, limit, taken)
            except BaseException:
                await asyncio.shield(self.give_back(taken.polled))
                raise
            if taken.problem is not None and not taken.polled:
                raise taken.problem
            return view, taken.polled

    async def _take(
        self, group: str, view: MemberView, session: PollSession, limit: int, taken: TakenMessages
    ) -> None:
        await self._streams.prepared.settled(group)
        await self._begin(group, view.assigned)
        ending = session.let_go & view.assigned
        session.let_go -= ending
        parts = [PartToTake(partition, partition in ending) for partition in session.in_turn(view.assigned)]
        claim = MemberClaim(self._streams, group, view)
        try:
            await self._owners.partitions.take(claim, parts, limit=limit, max_bytes=PAGE_BYTES, taken=taken)
        finally:
            session.let_go |= ending - taken.reached
            for part in taken.polled:
                session.served(TopicPartition(part.topic.id, part.partition))

    async def _begin(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """The first poll of a partition that has something begins at its earliest offset. It is journaled first, so
        commits come after it."""
        known = self._streams.group(group).offsets
        fresh = [partition for partition in partitions if partition not in known]
        if fresh:
            facts = await self._owners.partitions.facts(self._groups.group(group).id, dict.fromkeys(fresh))
            starts = {partition: found.start for partition, found in facts.items() if found.start < found.end}
            await self._streams.offsets.begin_at(group, starts, is_commit=False)

    def _pause_seconds(self, group: str, member_id: str) -> float:
        member = self._streams.group(group).membership.member(member_id)
        return member.subscription.session_ms / 3000


async def _first_of(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
