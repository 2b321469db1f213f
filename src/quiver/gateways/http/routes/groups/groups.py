"""Groups: list, describe, alter, delete, offsets, resets, rebalance statistics."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.answer import Answer
from quiver.gateways.http.operation import Handler, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.groups.answers import (
    AllRebalanceStatsAnswer,
    CooperativeGroupAnswer,
    GroupAnswer,
    RebalanceStatsAnswer,
    cooperative_group_answer,
    group_answer,
    stats_fields,
)
from quiver.gateways.http.routes.queues.settings import QueueSettingsBody
from quiver.gateways.http.routes.topics.topics import DeletedAnswer, Duration, ListQuery
from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidName, InvalidRequest, InvalidSetting
from quiver.model.names import check_name
from quiver.streams.membership import RebalanceStats

if TYPE_CHECKING:
    from quiver.broker.broker import Broker

_DEFAULT = "default"


def group_of(request: Request) -> str:
    """The group the path names; InvalidName when it cannot be one."""
    return check_name(unquote(request.params["group"]), "group")


class GroupSummaryAnswer(msgspec.Struct, kw_only=True):
    id: str
    kind: str
    state: str
    members: Annotated[int, Meta(description="How many there are.")]
    generation: int
    topics: list[str]
    lag: Annotated[int, Meta(description="Messages, over all partitions; of a queue group those that are ready.")]
    leased: Annotated[int, Meta(description="Messages that consumers of a queue group hold.")]
    retrying: Annotated[int, Meta(description="Messages that were given back and wait for their retry.")]


class GroupListAnswer(msgspec.Struct, kw_only=True):
    """All groups by name; with `limit` a page of them, and next_skip while there are more."""

    groups: list[GroupSummaryAnswer]
    count: int
    next_skip: int | UnsetType = UNSET


class GroupSettingsRequest(QueueSettingsBody, kw_only=True):
    """What is absent keeps its value; a setting of queues that is "default" is the topic's again."""

    offsets_retention: Duration = None

    def given(self) -> dict[str, Any]:
        settings = {name: None if value == _DEFAULT else value for name, value in self.queue_settings().items()}
        return (
            settings if self.offsets_retention is None else settings | {"offsets_retention": self.offsets_retention}
        )


class GroupRoutes:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Answer:
        query = request.query(ListQuery)
        summaries = await self._broker.group_admin.summaries(query.skip, query.limit)
        count = len(self._broker.groups.groups())
        end = count if query.limit is None else query.skip + query.limit
        shown = [
            GroupSummaryAnswer(
                id=summary.id,
                kind=summary.kind,
                state=summary.state,
                members=summary.member_count,
                generation=summary.generation,
                topics=summary.topics,
                lag=summary.lag,
                leased=summary.leased,
                retrying=summary.retrying,
            )
            for summary in summaries
        ]
        return Answer(GroupListAnswer(groups=shown, count=count, next_skip=end if end < count else UNSET))

    async def describe(self, request: Request) -> Answer:
        return Answer(await group_answer(await self._broker.group_admin.describe(group_of(request))))

    async def describe_cooperative(self, request: Request) -> Answer:
        return Answer(await cooperative_group_answer(await self._broker.group_admin.describe(group_of(request))))

    async def alter(self, request: Request) -> Answer:
        group = group_of(request)
        wanted = await request.body(GroupSettingsRequest)
        await self._broker.group_admin.alter(group, wanted.given())
        return Answer(await group_answer(await self._broker.group_admin.describe(group)))

    async def delete(self, request: Request) -> Answer:
        group = group_of(request)
        await self._broker.group_admin.delete(group)
        return Answer(DeletedAnswer(group))

    async def rebalance_stats(self, request: Request) -> Answer:
        group = self._broker.streams.group(group_of(request))
        return Answer(RebalanceStatsAnswer(**stats_fields(group.membership.stats)))

    async def all_rebalance_stats(self, request: Request) -> Answer:
        groups = self._broker.groups.groups()
        stats = {name: self._broker.streams.group(name).membership.stats for name in sorted(groups)}
        shown = {name: RebalanceStatsAnswer(**stats_fields(one)) for name, one in stats.items()}
        together = RebalanceStats.together(stats.values())
        return Answer(AllRebalanceStatsAnswer(groups=shown, **stats_fields(together)))


def group_routes(broker: "Broker") -> Routes:
    routes, known = GroupRoutes(broker), (InvalidName, GroupNotFound)

    def operation(handler: Handler, summary: str, answer: Any, **more: Any) -> Operation:
        return Operation(handler=handler, summary=summary, tag="Groups", answer=answer, **more)

    return {
        "/groups": {"GET": operation(routes.list, "List groups", GroupListAnswer, query=ListQuery)},
        "/groups/{group}": {
            "GET": operation(routes.describe, "Describe a group: members, offsets, lag", GroupAnswer, errors=known),
            "PATCH": operation(
                routes.alter,
                "Change the settings of a group",
                GroupAnswer,
                body=GroupSettingsRequest,
                example={"offsets_retention": "30d"},
                errors=(InvalidRequest, InvalidSetting, *known),
            ),
            "DELETE": operation(
                routes.delete,
                "Delete a group that has no members, and its offsets",
                DeletedAnswer,
                errors=(*known, GroupNotEmpty),
            ),
        },
        "/groups/{group}/cooperative": {
            "GET": operation(
                routes.describe_cooperative,
                "Describe a group, with what each member has",
                CooperativeGroupAnswer,
                errors=known,
            )
        },
        "/groups/{group}/rebalance/stats": {
            "GET": operation(routes.rebalance_stats, "Rebalances of a group", RebalanceStatsAnswer, errors=known)
        },
        "/rebalance/stats": {
            "GET": operation(routes.all_rebalance_stats, "Rebalances of all groups", AllRebalanceStatsAnswer)
        },
    }
