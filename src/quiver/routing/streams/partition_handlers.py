"""What this worker does with its partitions for owners of groups, and with its groups for owners of partitions."""

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.model.names import TopicPartition
from quiver.routing.streams.partition_requests import CommitsIn, Ends, Facts, Find, Follow
from quiver.routing.streams.requests import PartitionOffset
from quiver.streams.owners.port import Commit, PartitionFacts


class PartitionHandlers:
    """A topic that the caller knows may be new here: what it is asked for waits until its partitions are open."""

    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._topics = broker.topic_admin.follower
        self._partitions, self._streams = broker.streams.own_partitions, broker.streams
        handlers.add(Ends, self._ends)
        handlers.add(Facts, self._facts)
        handlers.add(Find, self._find)
        handlers.add(Follow, self._follow)
        handlers.add(CommitsIn, self._commits)

    async def _ends(self, request: Ends, payload: memoryview) -> Reply[list[PartitionOffset]]:
        await self._topics.caught_up()
        return Reply(list((await self._partitions.ends(request.partitions)).items()))

    async def _facts(self, request: Facts, payload: memoryview) -> Reply[list[tuple[TopicPartition, PartitionFacts]]]:
        await self._topics.caught_up()
        commits = dict(request.commits)
        facts = await self._partitions.facts(request.group_id, commits, with_age=request.with_age)
        return Reply(list(facts.items()))

    async def _find(self, request: Find, payload: memoryview) -> Reply[list[PartitionOffset]]:
        await self._topics.caught_up()
        return Reply(list((await self._partitions.find(request.partitions, request.position)).items()))

    async def _follow(self, request: Follow, payload: memoryview) -> Reply[None]:
        await self._partitions.follow(request.group_id, dict(request.commits))
        return DONE

    async def _commits(
        self, request: CommitsIn, payload: memoryview
    ) -> Reply[list[tuple[TopicPartition, dict[int, Commit]]]]:
        await self._streams.opened.wait()
        return Reply(list((await self._streams.positions.commits(request.partitions)).items()))
