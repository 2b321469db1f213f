"""What this worker does for others with members that poll in the groups that it owns."""

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.routing.polling.polled_parts import polled_reply
from quiver.routing.polling.requests import (
    AssignmentOf,
    JoinPolling,
    LeavePolling,
    PolledParts,
    PollFor,
    PollingHeartbeat,
    Revoke,
    ToldTo,
)
from quiver.streams.member_view import MemberView
from quiver.streams.poll.members import MemberUpdate


class PollHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._members, self._poll = broker.poll_members, broker.poll
        handlers.add(JoinPolling, self._join)
        handlers.add(PollingHeartbeat, self._heartbeat)
        handlers.add(Revoke, self._revoke)
        handlers.add(LeavePolling, self._leave)
        handlers.add(AssignmentOf, self._assignment)
        handlers.add(ToldTo, self._told)
        handlers.add(PollFor, self._poll_for)

    async def _join(self, request: JoinPolling, payload: memoryview) -> Reply[MemberUpdate]:
        update = await self._members.join(
            request.group,
            request.subscription,
            member_id=request.member_id,
            protocol=request.protocol,
            assignor=request.assignor,
            start=request.start,
        )
        return Reply(update)

    async def _heartbeat(self, request: PollingHeartbeat, payload: memoryview) -> Reply[MemberUpdate]:
        update = await self._members.heartbeat(
            request.group, request.member_id, request.generation, tell=request.tell
        )
        return Reply(update)

    async def _revoke(self, request: Revoke, payload: memoryview) -> Reply[MemberUpdate]:
        update = await self._members.revoke(request.group, request.member_id, request.partitions, request.generation)
        return Reply(update)

    async def _leave(self, request: LeavePolling, payload: memoryview) -> Reply[None]:
        await self._members.leave(request.group, request.member_id)
        return DONE

    async def _assignment(self, request: AssignmentOf, payload: memoryview) -> Reply[MemberView]:
        return Reply(await self._members.assignment(request.group, request.member_id))

    async def _told(self, request: ToldTo, payload: memoryview) -> Reply[MemberView | None]:
        return Reply(await self._members.told(request.group, request.member_id))

    async def _poll_for(self, request: PollFor, payload: memoryview) -> Reply[PolledParts]:
        polled = await self._poll.poll(
            request.group, request.member_id, timeout_ms=request.timeout_ms, limit=request.limit
        )
        return polled_reply(polled)
