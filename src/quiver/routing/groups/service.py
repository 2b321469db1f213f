"""Groups for people and tools: the owner of a stream group knows all of it, a queue group is put together."""

from collections.abc import Collection, Mapping
from typing import Any

from quiver.broker.broker import Broker
from quiver.model.errors import QuiverError
from quiver.model.position import Position
from quiver.routing.group_route import GroupRoute
from quiver.routing.groups.requests import (
    DeleteGroup,
    Describe,
    LeaveTopic,
    MembershipOf,
    PartsOf,
    ReadersOf,
    ResetGroup,
    UsedTopicsOf,
)
from quiver.routing.owners import Owners
from quiver.routing.scatter import Scatter
from quiver.streams.admin import GroupDetails, GroupPart, GroupSummary, merged_details, merged_summary
from quiver.streams.membership import Membership
from quiver.streams.reset import LikeGroup, ResetOffset, ResetTarget


class RoutedGroupAdmin:
    """A worker that does not respond fails a look: without its part, the numbers would be wrong."""

    def __init__(self, local: Broker, owners: Owners, route: GroupRoute, scatter: Scatter) -> None:
        self._local, self._groups, self._topic = local.group_admin, local.groups, local.topic
        self._owners, self._route, self._scatter = owners, route, scatter

    async def summaries(self, skip: int = 0, limit: int | None = None) -> list[GroupSummary]:
        names = self._local.names(skip, limit)
        used = await self._used(names)
        look = await self._scatter.look(PartsOf(names, used), lambda: self._local.parts(names, used))
        parts: dict[str, list[GroupPart]] = {}
        for part in (part for answer in look.complete() for part in answer):
            parts.setdefault(part.summary.id, []).append(part)
        return [merged_summary(parts[name]) for name in names if name in parts]

    async def describe(self, name: str) -> GroupDetails:
        if self._groups.group(name).kind == "queue":
            used = await self._used([name])
            look = await self._scatter.look(Describe(name, used), lambda: self._local.describe(name, used))
            return merged_details(look.complete())
        return await self._route.ask(name, Describe(name, {}))

    async def _used(self, names: list[str]) -> dict[str, list[int]]:
        """The owner of a topic's partition 0 knows which queue groups use the topic."""
        queues = [name for name in names if (group := self._groups.find(name)) is not None and group.kind == "queue"]
        if not queues:
            return {}
        look = await self._scatter.look(UsedTopicsOf(queues), lambda: self._local.used_topics(queues))
        answers = look.complete()
        return {name: sorted(set().union(*(answer.get(name, ()) for answer in answers))) for name in queues}

    async def counts(self, topic_ids: Collection[int]) -> dict[int, int]:
        look = await self._scatter.look(ReadersOf(list(topic_ids)), lambda: self._local.readers(topic_ids))
        answers = look.complete()
        return {topic_id: len(set().union(*(readers[topic_id] for readers in answers))) for topic_id in topic_ids}

    async def membership(self, name: str) -> Membership:
        return await self._route.ask(name, MembershipOf(name))

    async def alter(self, name: str, settings: Mapping[str, Any]) -> None:
        await self._local.alter(name, settings)

    async def delete(self, name: str) -> None:
        await self._route.call(name, DeleteGroup(name))

    async def leave_topic(self, name: str, topic: str) -> None:
        """The owner of partition 0 comes last: it says that the group uses the topic."""
        last = self._owners.of(topic, 0)
        others = [worker for worker in self._owners.of_topic(self._topic(topic)) if worker != last]
        for workers in (others, [last]):
            requests = dict.fromkeys(workers, LeaveTopic(name, topic))
            done = await self._scatter.split(requests, lambda: self._local.leave_topic(name, topic))
            for outcome in done.values():
                if isinstance(outcome, QuiverError):
                    raise outcome


class RoutedReset:
    def __init__(self, route: GroupRoute) -> None:
        self._route = route

    async def reset(self, group: str, topic_name: str, to: ResetTarget, *, dry_run: bool) -> list[ResetOffset]:
        position = to if isinstance(to, Position) else None
        shift = to if isinstance(to, int) else None
        like = to.group if isinstance(to, LikeGroup) else None
        return await self._route.call(group, ResetGroup(group, topic_name, position, shift, like, dry_run))
