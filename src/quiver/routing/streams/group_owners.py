"""The owners of groups, as owners of partitions and of other groups ask them."""

from collections.abc import Collection

from quiver.model.names import TopicPartition
from quiver.routing.scatter import Scatter
from quiver.routing.streams.partition_requests import CommitsIn
from quiver.routing.streams.service import RoutedStreams
from quiver.streams.owners.port import Commit, KnownCommits
from quiver.streams.positions import Positions


class LinkedGroups:
    def __init__(self, own: Positions, streams: RoutedStreams, scatter: Scatter) -> None:
        self._own, self._streams, self._scatter = own, streams, scatter

    async def commits(self, partitions: Collection[TopicPartition]) -> KnownCommits:
        async def own() -> list[tuple[TopicPartition, dict[int, Commit]]]:
            return list((await self._own.commits(partitions)).items())

        look = await self._scatter.look(CommitsIn(list(partitions)), own)
        found: dict[TopicPartition, dict[int, Commit]] = {}
        for answer in look.values():
            for place, commits in answer:
                found.setdefault(place, {}).update(commits)
        return KnownCommits(found, not look.missing)

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        return await self._streams.committed(group)
