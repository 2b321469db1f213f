"""Groups: list, describe, alter, delete, offsets, resets, rebalance statistics."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Handler, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.groups.responses import (
    AllRebalanceStatsResponse,
    CooperativeGroupResponse,
    GroupResponse,
    RebalanceStatsResponse,
    cooperative_group_response,
    group_response,
    stats_fields,
)
from quiver.gateways.http.routes.queues.settings import QueueSettingsBody
from quiver.gateways.http.routes.topics.topics import DeletedResponse, Duration, ListQuery
from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidName, InvalidRequest, InvalidSetting
from quiver.model.names import check_name
from quiver.streams.membership import RebalanceStats

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_DEFAULT = "default"


def group_of(request: Request) -> str:
    """The group that the path names; InvalidName when the name is not valid."""
    return check_name(unquote(request.params["group"]), "group")


class GroupSummaryResponse(msgspec.Struct, kw_only=True):
    id: str
    kind: str
    state: str
    members: Annotated[int, Meta(description="How many there are.")]
    generation: int
    topics: list[str]
    lag: Annotated[int, Meta(description="Messages in all partitions; for a queue group, those that are ready.")]
    leased: Annotated[int, Meta(description="Messages leased to consumers of a queue group.")]
    retrying: Annotated[int, Meta(description="Messages that were given back and wait for their retry.")]


class GroupListResponse(msgspec.Struct, kw_only=True):
    """All groups by name; with `limit` a page of them, and next_skip while there are more."""

    groups: list[GroupSummaryResponse]
    count: int
    next_skip: int | UnsetType = UNSET


class GroupSettingsRequest(QueueSettingsBody, kw_only=True):
    """What is absent keeps its value; "default" resets a queue setting to that of the topic."""

    offsets_retention: Duration = None

    def given(self) -> dict[str, Any]:
        settings = {name: None if value == _DEFAULT else value for name, value in self.queue_settings().items()}
        return (
            settings if self.offsets_retention is None else settings | {"offsets_retention": self.offsets_retention}
        )


class GroupRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        query = request.query(ListQuery)
        summaries = await self._broker.group_admin.summaries(query.skip, query.limit)
        count = len(self._broker.groups.groups())
        end = count if query.limit is None else query.skip + query.limit
        shown = [
            GroupSummaryResponse(
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
        return Response(GroupListResponse(groups=shown, count=count, next_skip=end if end < count else UNSET))

    async def describe(self, request: Request) -> Response:
        return Response(await group_response(await self._broker.group_admin.describe(group_of(request))))

    async def describe_cooperative(self, request: Request) -> Response:
        return Response(await cooperative_group_response(await self._broker.group_admin.describe(group_of(request))))

    async def alter(self, request: Request) -> Response:
        group = group_of(request)
        wanted = await request.body(GroupSettingsRequest)
        await self._broker.group_admin.alter(group, wanted.given())
        return Response(await group_response(await self._broker.group_admin.describe(group)))

    async def delete(self, request: Request) -> Response:
        group = group_of(request)
        await self._broker.group_admin.delete(group)
        return Response(DeletedResponse(group))

    async def rebalance_stats(self, request: Request) -> Response:
        membership = await self._broker.group_admin.membership(group_of(request))
        return Response(RebalanceStatsResponse(**stats_fields(membership.stats)))

    async def all_rebalance_stats(self, request: Request) -> Response:
        groups = sorted(self._broker.groups.groups())
        stats = {name: (await self._broker.group_admin.membership(name)).stats for name in groups}
        shown = {name: RebalanceStatsResponse(**stats_fields(one)) for name, one in stats.items()}
        together = RebalanceStats.together(stats.values())
        return Response(AllRebalanceStatsResponse(groups=shown, **stats_fields(together)))


def group_routes(broker: "Facade") -> Routes:
    routes, known = GroupRoutes(broker), (InvalidName, GroupNotFound)

    def operation(handler: Handler, summary: str, response: Any, **more: Any) -> Operation:
        return Operation(handler=handler, summary=summary, tag="Groups", response=response, **more)

    return {
        "/groups": {"GET": operation(routes.list, "List groups", GroupListResponse, query=ListQuery)},
        "/groups/{group}": {
            "GET": operation(routes.describe, "Describe a group: members, offsets, lag", GroupResponse, errors=known),
            "PATCH": operation(
                routes.alter,
                "Change the settings of a group",
                GroupResponse,
                body=GroupSettingsRequest,
                example={"offsets_retention": "30d"},
                errors=(InvalidRequest, InvalidSetting, *known),
            ),
            "DELETE": operation(
                routes.delete,
                "Delete a group that has no members, and its offsets",
                DeletedResponse,
                errors=(*known, GroupNotEmpty),
            ),
        },
        "/groups/{group}/cooperative": {
            "GET": operation(
                routes.describe_cooperative,
                "Describe a group, with the partitions of each member",
                CooperativeGroupResponse,
                errors=known,
            )
        },
        "/groups/{group}/rebalance/stats": {
            "GET": operation(routes.rebalance_stats, "Rebalances of a group", RebalanceStatsResponse, errors=known)
        },
        "/rebalance/stats": {
            "GET": operation(routes.all_rebalance_stats, "Rebalances of all groups", AllRebalanceStatsResponse)
        },
    }
