"""What is asked about groups of both kinds."""

from quiver.broker.broker import Broker
from quiver.model.position import Position
from quiver.routing.owned_request import OwnedRequest
from quiver.streams.admin import GroupDetails, GroupPart
from quiver.streams.membership import Membership
from quiver.streams.reset import LikeGroup, ResetOffset, ResetTarget

# of the owner of a group


class MembershipOf(OwnedRequest[Membership], frozen=True):
    capability, method = "groups", "membership"
    group: str

    async def carry_out(self, broker: Broker) -> Membership:
        return await broker.group_admin.membership(self.group)


class DeleteGroup(OwnedRequest[None], frozen=True):
    capability, method = "groups", "delete"
    group: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.group_admin.delete(self.group)


class ResetGroup(OwnedRequest[list[ResetOffset]], frozen=True):
    """To one of the three."""

    capability, method = "groups", "reset"
    group: str
    topic: str
    position: Position | None
    shift: int | None
    like: str | None
    dry_run: bool

    async def carry_out(self, broker: Broker) -> list[ResetOffset]:
        like = None if self.like is None else LikeGroup(self.like)
        given: list[ResetTarget | None] = [self.position, self.shift, like]
        [to] = [target for target in given if target is not None]
        return await broker.offset_reset.reset(self.group, self.topic, to, dry_run=self.dry_run)


# of the owner of a stream group; of every worker about a queue group


class Describe(OwnedRequest[GroupDetails], frozen=True):
    capability, method = "groups", "describe"
    group: str
    used: dict[str, list[int]]

    async def carry_out(self, broker: Broker) -> GroupDetails:
        return await broker.group_admin.describe(self.group, self.used)


# of every worker


class UsedTopicsOf(OwnedRequest[dict[str, list[int]]], frozen=True):
    capability, method = "groups", "used_topics"
    groups: list[str]

    async def carry_out(self, broker: Broker) -> dict[str, list[int]]:
        return await broker.group_admin.used_topics(self.groups)


class PartsOf(OwnedRequest[list[GroupPart]], frozen=True):
    capability, method = "groups", "parts"
    groups: list[str]
    used: dict[str, list[int]]

    async def carry_out(self, broker: Broker) -> list[GroupPart]:
        return await broker.group_admin.parts(self.groups, self.used)


class ReadersOf(OwnedRequest[dict[int, set[str]]], frozen=True):
    capability, method = "groups", "readers"
    topic_ids: list[int]

    async def carry_out(self, broker: Broker) -> dict[int, set[str]]:
        return await broker.group_admin.readers(self.topic_ids)


# of the owners of partitions that a queue group uses


class CheckIdle(OwnedRequest[None], frozen=True):
    capability, method = "groups", "check_idle"
    group: str

    async def carry_out(self, broker: Broker) -> None:
        broker.queues.check_idle(self.group)


class SettledOffsets(OwnedRequest[dict[int, int]], frozen=True):
    capability, method = "groups", "settled_offsets"
    topic_id: int
    group: str

    async def carry_out(self, broker: Broker) -> dict[int, int]:
        topic = broker.metadata.catalogue.topic_by_id(self.topic_id)
        return broker.queues.settled_offsets(topic, self.group)


class Rewind(OwnedRequest[None], frozen=True):
    capability, method = "groups", "rewind"
    topic_id: int
    group: str
    offsets: dict[int, int]

    async def carry_out(self, broker: Broker) -> None:
        topic = broker.metadata.catalogue.topic_by_id(self.topic_id)
        await broker.queues.rewind(topic, self.group, self.offsets)


class LeaveTopic(OwnedRequest[None], frozen=True):
    capability, method = "groups", "leave_topic"
    group: str
    topic: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.queues.leave(self.topic, self.group)


class GroupDeleted(OwnedRequest[None], frozen=True):
    capability, method = "groups", "deleted"
    group_id: int

    async def carry_out(self, broker: Broker) -> None:
        await broker.queues.group_deleted(self.group_id)


GROUP_REQUESTS = (
    MembershipOf,
    DeleteGroup,
    ResetGroup,
    Describe,
    UsedTopicsOf,
    PartsOf,
    ReadersOf,
    CheckIdle,
    SettledOffsets,
    Rewind,
    LeaveTopic,
    GroupDeleted,
)
