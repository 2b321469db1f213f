"""What this worker leases from its partitions to members of groups that other workers own."""

import asyncio

from quiver.broker.broker import Broker
from quiver.groups.service import Groups
from quiver.links.request import DONE, Handlers, Reply
from quiver.model.errors import GenerationMismatch
from quiver.model.names import TopicPartition
from quiver.protocol.link_messages import link_failure
from quiver.routing.polling.polled_parts import polled_reply
from quiver.routing.polling.requests import AwaitNews, TakeForMember, TakenParts
from quiver.streams.owners.port import Commit, PartToTake, TakenMessages

_LONGEST_WAIT_SECONDS = 60.0
"""The caller asks again."""
_FIRST_SWEEP_GROUPS = 64


class SeenGenerations:
    """The highest generation of each group for which something was taken here. In memory only: a restart ends the
    links of all who could ask with an older one."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._highest: dict[int, int] = {}
        self._sweep_at = _FIRST_SWEEP_GROUPS

    def is_current(self, group_id: int, generation: int) -> bool:
        return generation >= self._highest.get(group_id, 0)

    def check(self, group_id: int, generation: int) -> None:
        """GenerationMismatch if a higher one was seen."""
        if not self.is_current(group_id, generation):
            raise GenerationMismatch(generation=generation, current=self._highest[group_id])
        self._highest[group_id] = generation
        if len(self._highest) >= self._sweep_at:
            self._highest = {id: highest for id, highest in self._highest.items() if self._groups.name_of(id)}
            self._sweep_at = max(_FIRST_SWEEP_GROUPS, 2 * len(self._highest))


class NamedClaim:
    """What the owner of the group says of its member."""

    def __init__(self, request: TakeForMember, group_id: int, generations: SeenGenerations) -> None:
        self.group, self.member_id, self.generation = request.group, request.member_id, request.generation
        self._commits = {part.partition: part.commit for part in request.parts}
        self._group_id, self._generations = group_id, generations

    def is_current(self, partition: TopicPartition) -> bool:
        return self._generations.is_current(self._group_id, self.generation)

    def commit(self, partition: TopicPartition) -> Commit | None:
        return self._commits[partition]


class TakeHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._topics, self._groups = broker.topic_admin.follower, broker.groups
        self._partitions = broker.streams.own_partitions
        self._generations = SeenGenerations(broker.groups)
        handlers.add(TakeForMember, self._take)
        handlers.add(AwaitNews, self._await_news)

    async def _take(self, request: TakeForMember, payload: memoryview) -> Reply[TakenParts]:
        group_id = self._groups.group(request.group).id
        self._generations.check(group_id, request.generation)
        await self._topics.caught_up()
        claim, taken = NamedClaim(request, group_id, self._generations), TakenMessages()
        parts = [PartToTake(part.partition, part.ends_own) for part in request.parts]
        try:
            await self._partitions.take(claim, parts, limit=request.limit, max_bytes=request.max_bytes, taken=taken)
        except BaseException:
            await asyncio.shield(self._partitions.give_back(taken.polled))
            raise
        polled = polled_reply(taken.polled)
        problem = None if taken.problem is None else link_failure(taken.problem)
        return Reply(TakenParts(polled.value, list(taken.reached), problem), polled.payload)

    async def _await_news(self, request: AwaitNews, payload: memoryview) -> Reply[None]:
        watch = self._partitions.watch(request.group_id, request.partitions)
        try:
            async with asyncio.timeout(min(_LONGEST_WAIT_SECONDS, watch.seconds_to_retry())):
                await watch.news.wait()
        except TimeoutError:
            pass
        finally:
            watch.close()
        return DONE
