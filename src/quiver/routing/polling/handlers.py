"""What this worker does for others with members that poll in the groups that it owns."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, Reply
from quiver.routing.owned_request import add_owned
from quiver.routing.polling.polled_parts import polled_reply
from quiver.routing.polling.requests import POLL_MEMBER_REQUESTS, PolledParts, PollFor


class PollHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._poll = broker.poll
        add_owned(handlers, broker, POLL_MEMBER_REQUESTS)
        handlers.add(PollFor, self._poll_for)

    async def _poll_for(self, request: PollFor, payload: memoryview) -> Reply[PolledParts]:
        polled = await self._poll.poll(
            request.group, request.member_id, timeout_ms=request.timeout_ms, limit=request.limit
        )
        return polled_reply(polled)
