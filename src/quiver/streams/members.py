"""Members that speak in plain requests: what they do, and whether there is something they have not heard of yet."""

from typing import NamedTuple

from quiver.groups.assignors import AssignorName
from quiver.groups.live_group import MemberView
from quiver.groups.member import Subscription
from quiver.groups.state import Protocol
from quiver.model.position import EARLIEST, Position
from quiver.model.topic_partition import TopicPartition
from quiver.streams.poll.sessions import PollSessions
from quiver.streams.service import Groups


class MemberNews(NamedTuple):
    view: MemberView
    rebalance_required: bool
    """The member has something to let go of or to receive that it was not told of before this answer."""


class Members:
    def __init__(self, groups: Groups, sessions: PollSessions) -> None:
        self._groups = groups
        self._sessions = sessions

    async def join(
        self,
        group: str,
        subscription: Subscription,
        *,
        member_id: str | None = None,
        protocol: Protocol = "cooperative",
        assignor: AssignorName | None = None,
        start: Position = EARLIEST,
    ) -> MemberNews:
        """Joins, or comes back; the answer tells what the member has."""
        asked = self._groups.service.view(group, member_id).revoke if member_id is not None else frozenset()
        view = await self._groups.join(
            group, subscription, member_id=member_id, protocol=protocol, assignor=assignor, start=start
        )
        self._sessions.let_go(group, view.member_id, asked - view.assigned - view.revoke)
        self._sessions.tell(group, view)
        return self._news(group, view)

    async def heartbeat(self, group: str, member_id: str, generation: int | None, *, tell: bool) -> MemberNews:
        """A sign of life; with `tell` the answer shows the member what it has."""
        news = self._news(group, await self._groups.service.heartbeat(group, member_id, generation=generation))
        if tell:
            self._sessions.tell(group, news.view)
        return news

    async def revoke(
        self, group: str, member_id: str, partitions: frozenset[TopicPartition], generation: int | None
    ) -> MemberNews:
        """The member has let go of these; what it was not asked for stays with it."""
        asked = self._groups.service.view(group, member_id).revoke
        view = await self._groups.service.heartbeat(group, member_id, generation=generation, revoked=partitions)
        self._sessions.let_go(group, member_id, (asked & partitions) - view.assigned)
        news = self._news(group, view)
        self._sessions.tell(group, view)
        return news

    async def leave(self, group: str, member_id: str) -> None:
        await self._groups.service.leave(group, member_id)
        self._sessions.forget(group, member_id)

    def assignment(self, group: str, member_id: str) -> MemberView:
        """What the member may read now; it is told so, which is no sign of life."""
        view = self._groups.service.view(group, member_id)
        self._sessions.tell(group, view)
        return view

    def _news(self, group: str, view: MemberView) -> MemberNews:
        told = self._sessions.told(group, view.member_id)
        unheard = told is None or told.assigned != view.assigned
        return MemberNews(view, unheard or view.state != "complete")
