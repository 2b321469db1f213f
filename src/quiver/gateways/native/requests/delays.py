"""What requests about delayed messages ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.errors import InvalidRequest
from quiver.model.limits import LISTED_AT_ONCE
from quiver.protocol.delay_messages import (
    CancelDelayed,
    CancelledDelayed,
    Delayed,
    DelayedList,
    GetDelayed,
    ListDelayed,
    RescheduledDelayed,
    RescheduleDelayed,
)
from quiver.protocol.message import Message
from quiver.routing.facade import Facade


async def _list(broker: Facade, request: ListDelayed) -> Message:
    if request.limit < 1 or request.skip < 0:
        raise InvalidRequest(problem="limit is 1 or more, and skip 0 or more")
    page = await broker.delays.page(request.topic, skip=request.skip, limit=min(request.limit, LISTED_AT_ONCE))
    return DelayedList(*page)


async def _get(broker: Facade, request: GetDelayed) -> Message:
    partition = None if request.partition == -1 else request.partition
    return Delayed(await broker.delays.get(request.topic, partition, request.id))


async def _cancel(broker: Facade, request: CancelDelayed) -> Message:
    if len(request.ids) > LISTED_AT_ONCE:
        raise InvalidRequest(problem=f"cancel at most {LISTED_AT_ONCE} messages at a time")
    return CancelledDelayed(sorted(await broker.delays.cancel(request.topic, request.partition, request.ids)))


async def _reschedule(broker: Facade, request: RescheduleDelayed) -> Message:
    topic, partition, ids, at_ms = request.topic, request.partition, request.ids, request.deliver_at_ms
    if len(ids) > LISTED_AT_ONCE:
        raise InvalidRequest(problem=f"reschedule at most {LISTED_AT_ONCE} messages at a time")
    if at_ms < 0:
        raise InvalidRequest(problem=f"{at_ms} is not a time in epoch milliseconds")
    return RescheduledDelayed(sorted(await broker.delays.reschedule(topic, partition, ids, at_ms)))


DELAY_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    ListDelayed: _list,
    GetDelayed: _get,
    CancelDelayed: _cancel,
    RescheduleDelayed: _reschedule,
}
