"""Poll: a group member reads over HTTP. The messages are leased to it, so that it can ack single messages.

A group whose members poll has the delivery state of a queue group in each partition, read in offset order and by the
partition's owner alone. `streams.positions` knows the position: a commit settles everything below it, acks move it
over everything that is settled without a gap, and messages that are neither committed nor acked are delivered again.
"""

import asyncio
from typing import NamedTuple

from quiver.groups.service import Groups
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.limits import PAGE_BYTES
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.receive import Received
from quiver.queues.service import Queues
from quiver.queues.state.port import GroupState, LeaseTerms
from quiver.streams.member_view import MemberView
from quiver.streams.poll.sessions import PollSession, PollSessions
from quiver.streams.service import Streams
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_ANSWER_EARLY_SECONDS = 0.1
"""A poll returns this much before its timeout, so that the client's own timeout does not come first."""
_LEVEL = 0
"""The level of messages that are read in offset order."""


class PolledPartition(NamedTuple):
    topic: Topic
    partition: int
    received: list[Received]
    next_offset: int | None
    """The offset to commit when all these messages are processed. It stops at the first message that is neither
    settled nor in this response, for example one of a response that got lost. None if that leaves nothing to
    commit."""


class Poll:
    def __init__(
        self,
        groups: Groups,
        streams: Streams,
        queues: Queues,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        *,
        clock: Clock,
    ) -> None:
        self._groups = groups
        self._streams = streams
        self._queues = queues
        self._catalogue = catalogue
        self._partitions = partitions
        self._clock = clock
        self.sessions = PollSessions(groups, streams)

    async def poll(self, group: str, member_id: str, *, timeout_ms: int, limit: int) -> list[PolledPartition]:
        """Messages after those that this member has leased; waits for some. It counts as a heartbeat the whole time.

        The member's assignment is followed meanwhile: partitions are taken and given up without telling the caller.
        """
        deadline = self._clock.monotonic() + max(0.0, timeout_ms / 1000 - _ANSWER_EARLY_SECONDS)
        while True:
            view = await self._sign_of_life(group, member_id)
            news, changed = asyncio.Event(), self._streams.members.changed(group)
            group_id = self._groups.group(group).id
            watched = [self._partitions.get(*p) for p in view.assigned if self._streams.topic_name(p.topic_id)]
            for partition in watched:
                partition.committed.watch(news.set)
            self._queues.watchers.watch(group_id, news.set)
            try:
                view, found = await self._read(group, member_id, limit)
                remaining = deadline - self._clock.monotonic()
                if found or remaining <= 0:
                    self.sessions.tell(group, view)
                    return found
                pause = min(remaining, self._pause_seconds(group, member_id), self._seconds_to_retry(group, view))
                await _first_of(news, changed, pause)
            finally:
                self._queues.watchers.unwatch(group_id, news.set)
                for partition in watched:
                    partition.committed.unwatch(news.set)

    async def give_back(self, polled: list[PolledPartition]) -> None:
        """These messages did not reach the member: the next poll gets them again."""
        await self._queues.give_back([received for part in polled for received in part.received])

    async def _sign_of_life(self, group: str, member_id: str) -> MemberView:
        view = await self._streams.members.heartbeat(group, member_id)
        if view.revoke:
            view = await self._streams.members.heartbeat(group, member_id, revoked=view.revoke)
        return view

    async def _read(self, group: str, member_id: str, limit: int) -> tuple[MemberView, list[PolledPartition]]:
        """One poll of a member at a time; a cancelled one gives back what it took."""
        session = self.sessions.of(group, member_id)
        async with session.lock:
            view = self._streams.members.view(group, member_id)
            found: list[PolledPartition] = []
            try:
                problem = await self._take(group, view, session, limit, found)
            except BaseException:
                await asyncio.shield(self.give_back(found))
                raise
            if problem is not None and not found:
                raise problem
            return view, found

    async def _take(
        self, group: str, view: MemberView, session: PollSession, limit: int, found: list[PolledPartition]
    ) -> QuiverError | None:
        """Adds to what was found. A partition that cannot be read does not prevent reading the others."""
        problem: QuiverError | None = None
        size = 0
        async for partition in paced(session.in_turn(view.assigned)):
            if limit <= 0 or size >= PAGE_BYTES:
                break
            try:
                received = await self._take_from(group, view.member_id, session, partition, limit, PAGE_BYTES - size)
            except QuiverError as error:
                if self._streams.topic_name(partition.topic_id) is not None:
                    problem = error
                continue
            if received:
                session.served(partition)
                found.append(self._polled(partition, received))
                limit -= sum(one.run.end - one.run.start for one in received)
                size += sum(len(one.run.frame) for one in received)
        return problem

    async def _take_from(
        self, group: str, member_id: str, session: PollSession, partition: TopicPartition, limit: int, max_bytes: int
    ) -> list[Received]:
        topic = self._catalogue.topic_by_id(partition.topic_id)
        if not self._may_have_some(group, partition):
            return []
        queue = await self._take_over(group, member_id, session, partition)
        group_id, settings = self._groups.group(group).id, self._queues.settings_of(topic.id, group)
        if not (await queue.issuer.read_ahead(group_id, count=limit))[_LEVEL]:
            return []
        if not self._is_assigned(group, member_id, partition):
            return []  # another member got it meanwhile; there is no await from here to the lease
        lease, deadline_ms = (
            queue.issuer.new_lease_id(),
            self._queues.lease_clock.now_ms() + settings.visibility_ms,
        )
        taken = queue.issuer.take(group_id, _LEVEL, limit, LeaseTerms(lease, member_id, deadline_ms))
        self._queues.note_time(queue, deadline_ms)
        given = await queue.issuer.deliver(
            group_id, lease, taken, ttl_ms=topic.config.ttl_ms, settings=settings, max_bytes=max_bytes
        )
        return [Received(topic, settings.visibility_ms, one) for one in given]

    def _is_assigned(self, group: str, member_id: str, partition: TopicPartition) -> bool:
        return partition in self._streams.members.view(group, member_id).assigned

    def _polled(self, partition: TopicPartition, received: list[Received]) -> PolledPartition:
        runs = [(one.run.start, one.run.end) for one in received]
        queue = self._queues.partition_queues(partition.topic_id).get(partition.partition)
        settled = None if queue is None else queue.settled_with(received[0].run.group_id, runs)
        end = max(end for _, end in runs)
        return PolledPartition(
            received[0].topic, partition.partition, received, None if settled is None else min(settled, end)
        )

    def _may_have_some(self, group: str, partition: TopicPartition) -> bool:
        """Whether there is anything to read or to deliver again, without opening a partition that was never used."""
        queue = self._queues.partition_queues(partition.topic_id).get(partition.partition)
        if queue is not None and queue.state(self._groups.group(group).id) is not None:
            return True
        return self._next_offset(group, partition) < self._partitions.get(*partition).committed.high_watermark

    async def _take_over(
        self, group: str, member_id: str, session: PollSession, partition: TopicPartition
    ) -> PartitionQueue:
        """The group's state in a partition that the member owns: nobody else holds anything."""
        topic = self._catalogue.topic_by_id(partition.topic_id)
        queue = await self._queues.partition_queue(topic, partition.partition)
        group_id = self._groups.group(group).id
        state = queue.state(group_id)
        if state is None or partition not in self._streams.group(group).offsets:
            state = await self._begin(group, partition, queue)
        for holder in state.held_by():
            is_over = holder != member_id or partition in session.let_go
            if is_over and self._is_assigned(group, member_id, partition):  # it may have moved on meanwhile
                await queue.end_leases(group_id, holder)
        session.let_go.discard(partition)
        now_ms = self._queues.lease_clock.now_ms()
        if (state.next_time_ms() or now_ms) < now_ms:
            await self._queues.expire(queue)
        return queue

    async def _begin(self, group: str, partition: TopicPartition, queue: PartitionQueue) -> GroupState:
        """The first poll of a partition begins at the group's position. It is journaled first, so commits come after
        it."""
        start = self._next_offset(group, partition)
        await self._streams.offsets.begin_at(group, {partition: start}, is_commit=False)
        committed = self._streams.group(group).offsets.get(partition)
        if committed is None:
            raise TopicNotFound(topic=f"topic id {partition.topic_id}")  # it was deleted meanwhile
        return await queue.begin(
            self._groups.group(group).id,
            ordering="none",
            start=self._next_offset(group, partition),
            in_offset_order=True,
            version=committed.version,
        )

    def _next_offset(self, group: str, partition: TopicPartition) -> int:
        earliest = self._partitions.get(*partition).log.start_offset
        return self._streams.positions.next_offset(self._groups.group(group).id, partition, earliest)

    def _pause_seconds(self, group: str, member_id: str) -> float:
        member = self._streams.group(group).membership.member(member_id)
        return member.subscription.session_ms / 3000

    def _seconds_to_retry(self, group: str, view: MemberView) -> float:
        """The time until a message that the member has leased may be delivered again."""
        group_id, nearest_ms = self._groups.group(group).id, None
        for topic_id, number in view.assigned:
            queue = self._queues.partition_queues(topic_id).get(number)
            state = None if queue is None else queue.state(group_id)
            time_ms = None if state is None else state.next_time_ms()
            if time_ms is not None and (nearest_ms is None or time_ms < nearest_ms):
                nearest_ms = time_ms
        now_ms = self._queues.lease_clock.now_ms()
        return float("inf") if nearest_ms is None else max(0.01, (nearest_ms + 1 - now_ms) / 1000)


async def _first_of(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
