"""What this worker does for others about groups of both kinds."""

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.routing.groups.requests import (
    CheckIdle,
    DeleteGroup,
    Describe,
    GroupDeleted,
    LeaveTopic,
    MembershipOf,
    PartsOf,
    ReadersOf,
    ResetGroup,
    Rewind,
    SettledOffsets,
    UsedTopicsOf,
)
from quiver.streams.admin import GroupDetails, GroupPart
from quiver.streams.membership import Membership
from quiver.streams.reset import LikeGroup, ResetOffset, ResetTarget


class GroupHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._admin, self._reset_of = broker.group_admin, broker.offset_reset
        handlers.add(MembershipOf, self._membership)
        handlers.add(DeleteGroup, self._delete)
        handlers.add(ResetGroup, self._reset)
        handlers.add(Describe, self._describe)
        handlers.add(UsedTopicsOf, self._used_topics)
        handlers.add(PartsOf, self._parts)
        handlers.add(ReadersOf, self._readers)

    async def _membership(self, request: MembershipOf, payload: memoryview) -> Reply[Membership]:
        return Reply(await self._admin.membership(request.group))

    async def _delete(self, request: DeleteGroup, payload: memoryview) -> Reply[None]:
        await self._admin.delete(request.group)
        return DONE

    async def _reset(self, request: ResetGroup, payload: memoryview) -> Reply[list[ResetOffset]]:
        like = None if request.like is None else LikeGroup(request.like)
        given: list[ResetTarget | None] = [request.position, request.shift, like]
        [to] = [target for target in given if target is not None]
        return Reply(await self._reset_of.reset(request.group, request.topic, to, dry_run=request.dry_run))

    async def _describe(self, request: Describe, payload: memoryview) -> Reply[GroupDetails]:
        return Reply(await self._admin.describe(request.group, request.used))

    async def _used_topics(self, request: UsedTopicsOf, payload: memoryview) -> Reply[dict[str, list[int]]]:
        return Reply(await self._admin.used_topics(request.groups))

    async def _parts(self, request: PartsOf, payload: memoryview) -> Reply[list[GroupPart]]:
        return Reply(await self._admin.parts(request.groups, request.used))

    async def _readers(self, request: ReadersOf, payload: memoryview) -> Reply[dict[int, set[str]]]:
        return Reply(await self._admin.readers(request.topic_ids))


class GroupQueueHandlers:
    """Of queue groups, in the partitions of this worker."""

    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._queues, self._catalogue = broker.queues, broker.metadata.catalogue
        handlers.add(CheckIdle, self._check_idle)
        handlers.add(SettledOffsets, self._settled_offsets)
        handlers.add(Rewind, self._rewind)
        handlers.add(LeaveTopic, self._leave_topic)
        handlers.add(GroupDeleted, self._deleted)

    async def _check_idle(self, request: CheckIdle, payload: memoryview) -> Reply[None]:
        self._queues.check_idle(request.group)
        return DONE

    async def _settled_offsets(self, request: SettledOffsets, payload: memoryview) -> Reply[dict[int, int]]:
        topic = self._catalogue.topic_by_id(request.topic_id)
        return Reply(self._queues.settled_offsets(topic, request.group))

    async def _rewind(self, request: Rewind, payload: memoryview) -> Reply[None]:
        topic = self._catalogue.topic_by_id(request.topic_id)
        await self._queues.rewind(topic, request.group, request.offsets)
        return DONE

    async def _leave_topic(self, request: LeaveTopic, payload: memoryview) -> Reply[None]:
        await self._queues.leave(request.topic, request.group)
        return DONE

    async def _deleted(self, request: GroupDeleted, payload: memoryview) -> Reply[None]:
        await self._queues.group_deleted(request.group_id)
        return DONE
