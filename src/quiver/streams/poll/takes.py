"""Takes: what members that poll lease from the partitions of this process.

A group whose members poll has the delivery state of a queue group in each partition, read in offset order and by the
partition's owner alone.
"""

from collections.abc import Sequence

from quiver.groups.service import Groups
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.receive import Received
from quiver.queues.service import Queues
from quiver.queues.state.port import LeaseTerms
from quiver.streams.owners.port import Claim, Commit, PartToTake, PolledPartition, TakenMessages
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_LEVEL = 0
"""The level of messages that are read in offset order."""


class Takes:
    def __init__(self, groups: Groups, catalogue: TopicCatalogue, partitions: Partitions, queues: Queues) -> None:
        self._groups = groups
        self._catalogue = catalogue
        self._partitions = partitions
        self._queues = queues

    async def take(
        self, claim: Claim, parts: Sequence[PartToTake], *, limit: int, max_bytes: int, taken: TakenMessages
    ) -> None:
        """Adds to `taken`. A partition that cannot be read does not prevent reading the others."""
        async for part in paced(parts):
            if limit <= 0 or max_bytes <= 0:
                break
            try:
                received = await self._take_from(claim, part, limit, max_bytes)
            except QuiverError as error:
                if self._is_there(part.partition):
                    taken.problem = error
                continue
            taken.reached.add(part.partition)
            if received:
                taken.polled.append(self._polled(part.partition, received))
                limit -= sum(one.run.end - one.run.start for one in received)
                max_bytes -= sum(len(one.run.frame) for one in received)

    async def _take_from(self, claim: Claim, part: PartToTake, limit: int, max_bytes: int) -> list[Received]:
        place = part.partition
        topic, group_id = self._catalogue.topic_by_id(place.topic_id), self._groups.group(claim.group).id
        commit = claim.commit(place)
        if commit is None or not self._may_have_some(group_id, place, commit):
            return []
        queue = await self._take_over(claim, part, topic)
        settings = self._queues.settings_of(topic.id, claim.group)
        if not (await queue.issuer.read_ahead(group_id, count=limit))[_LEVEL]:
            return []
        if not claim.is_current(place):
            return []  # another member got it meanwhile; there is no await from here to the lease
        lease, deadline_ms = (
            queue.issuer.new_lease_id(),
            self._queues.lease_clock.now_ms() + settings.visibility_ms,
        )
        leased = queue.issuer.take(group_id, _LEVEL, limit, LeaseTerms(lease, claim.member_id, deadline_ms))
        self._queues.note_time(queue, deadline_ms)
        given = await queue.issuer.deliver(
            group_id, lease, leased, ttl_ms=topic.config.ttl_ms, settings=settings, max_bytes=max_bytes
        )
        return [Received(topic, settings.visibility_ms, one) for one in given]

    def _may_have_some(self, group_id: int, place: TopicPartition, commit: Commit) -> bool:
        """Whether there is anything to read or to deliver again, without opening a partition that was never used."""
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        if queue is not None and queue.state(group_id) is not None:
            return True
        partition = self._partitions.get(*place)
        return max(commit.offset, partition.log.start_offset) < partition.committed.high_watermark

    async def _take_over(self, claim: Claim, part: PartToTake, topic: Topic) -> PartitionQueue:
        """The group's state in a partition that the member owns: nobody else holds anything."""
        place, group_id = part.partition, self._groups.group(claim.group).id
        queue = await self._queues.partition_queue(topic, place.partition)
        commit = claim.commit(place)
        if commit is None:
            raise TopicNotFound(topic=topic.name)  # it was deleted meanwhile
        self._queues.follow(queue, group_id, commit.offset, commit.version)
        state = queue.state(group_id)
        if state is None:
            start = max(commit.offset, queue.partition.log.start_offset)
            state = await queue.begin(
                group_id, ordering="none", start=start, in_offset_order=True, version=commit.version
            )
        for holder in state.held_by():
            is_over = holder != claim.member_id or part.ends_own
            if is_over and claim.is_current(place):  # it may have moved on meanwhile
                await queue.end_leases(group_id, holder)
        now_ms = self._queues.lease_clock.now_ms()
        if (state.next_time_ms() or now_ms) < now_ms:
            await self._queues.expire(queue)
        return queue

    def _polled(self, place: TopicPartition, received: list[Received]) -> PolledPartition:
        runs = [(one.run.start, one.run.end) for one in received]
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        settled = None if queue is None else queue.settled_with(received[0].run.group_id, runs)
        end = max(end for _, end in runs)
        return PolledPartition(
            received[0].topic, place.partition, received, None if settled is None else min(settled, end)
        )

    def _is_there(self, place: TopicPartition) -> bool:
        try:
            self._catalogue.topic_by_id(place.topic_id)
        except TopicNotFound:
            return False
        return True
