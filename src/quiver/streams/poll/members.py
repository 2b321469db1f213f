"""Members that poll over HTTP: their requests, and whether there is a change that they were not told of."""

from typing import NamedTuple

from quiver.model.names import TopicPartition
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import JoinOptions
from quiver.streams.poll.sessions import PollSessions
from quiver.streams.service import Streams


class MemberUpdate(NamedTuple):
    view: MemberView
    rebalance_required: bool
    """The member has to give up partitions, or gets some, and is told of it with this response."""


class PollMembers:
    def __init__(self, streams: Streams, sessions: PollSessions) -> None:
        self._streams = streams
        self._sessions = sessions

    async def join(
        self,
        group: str,
        subscription: Subscription,
        options: JoinOptions = JoinOptions(),  # noqa: B008 - a value
    ) -> MemberUpdate:
        """Joins, or joins again; returns what the member has."""
        known = options.member_id
        asked = self._streams.members.view(group, known).revoke if known is not None else frozenset()
        view = await self._streams.join(group, subscription, options)
        self._sessions.let_go(group, view.member_id, asked - view.assigned - view.revoke)
        self._sessions.tell(group, view)
        return self._update(group, view)

    async def heartbeat(self, group: str, member_id: str, generation: int | None, *, tell: bool) -> MemberUpdate:
        """A heartbeat; with `tell` it returns what the member has."""
        update = self._update(group, await self._streams.members.heartbeat(group, member_id, generation=generation))
        if tell:
            self._sessions.tell(group, update.view)
        return update

    async def revoke(
        self, group: str, member_id: str, partitions: frozenset[TopicPartition], generation: int | None
    ) -> MemberUpdate:
        """The member gives these up; partitions that it was not asked to give up stay with it."""
        asked = self._streams.members.view(group, member_id).revoke
        view = await self._streams.members.heartbeat(group, member_id, generation=generation, revoked=partitions)
        self._sessions.let_go(group, member_id, (asked & partitions) - view.assigned)
        update = self._update(group, view)
        self._sessions.tell(group, view)
        return update

    async def leave(self, group: str, member_id: str) -> None:
        await self._streams.members.leave(group, member_id)
        self._sessions.forget(group, member_id)

    async def assignment(self, group: str, member_id: str) -> MemberView:
        """What the member may read now. The member is told; this does not count as a heartbeat."""
        view = self._streams.members.view(group, member_id)
        self._sessions.tell(group, view)
        return view

    async def told(self, group: str, member_id: str) -> MemberView | None:
        """What the member was told last; None if it was told nothing since this broker started."""
        return self._sessions.told(group, member_id)

    def _update(self, group: str, view: MemberView) -> MemberUpdate:
        told = self._sessions.told(group, view.member_id)
        is_new = told is None or told.assigned != view.assigned
        return MemberUpdate(view, is_new or view.state != "complete")
