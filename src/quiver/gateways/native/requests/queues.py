"""What requests about queues ask of the broker."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_args

from quiver.model.errors import GroupNotFound, InvalidRequest
from quiver.model.priority import Priority
from quiver.model.queue import Ordering, ReceiveRequest
from quiver.protocol.message import Message
from quiver.protocol.messages import Done
from quiver.protocol.queue_messages import (
    DescribeQueues,
    PauseQueue,
    QueueDepth,
    QueueDepths,
    Receive,
    Received,
    ReceivedRun,
    RefusedRun,
    ResumeQueue,
    Settle,
    Settled,
    SettledPart,
)
from quiver.queues.service import Received as Lease
from quiver.queues.state.port import Settlement
from quiver.routing.facade import Facade

_LONGEST_REASON = 500
Payload = tuple[bytes | memoryview, ...]
_ORDERINGS: tuple[Ordering, ...] = get_args(Ordering)


async def receive(broker: Facade, request: Receive, connection: str, *, own_first: bool) -> list[Lease]:
    """The leases that the request gets; `connection` names a consumer that has no name."""
    wanted = ReceiveRequest(
        request.topic_ids,
        request.group,
        request.consumer or connection,
        request.max_messages,
        request.max_bytes,
        request.wait_ms,
        request.visibility_ms,
        _ordering(request.ordering),
        _priority(request.priority),
        request.start,
        own_first=own_first,
    )
    return await broker.queues.receive(wanted)


def max_unacked(broker: Facade, request: Receive) -> tuple[int, ...]:
    """What the consumer may hold of each topic. Nothing, if the group was deleted meanwhile."""
    try:
        settings = [broker.queues.settings_of(topic_id, request.group) for topic_id in request.topic_ids]
    except GroupNotFound:
        return ()
    return tuple(each.max_unacked for each in settings)


def received(leases: Sequence[Lease], max_unacked: tuple[int, ...]) -> tuple[Received, Payload]:
    """The response, and the frames that follow it."""
    runs = [
        ReceivedRun(
            topic.id,
            run.partition,
            run.group_id,
            run.lease_id,
            run.start,
            run.end,
            run.attempt,
            run.deadline_ms,
            visibility_ms,
            run.first_delivered_ms,
            run.last_error,
            len(run.frame),
        )
        for topic, visibility_ms, run in leases
    ]
    return Received(runs, max_unacked), tuple(lease.run.frame for lease in leases)


def _ordering(value: str | None) -> Ordering | None:
    for known in _ORDERINGS:
        if value == known:
            return known
    if value is not None:
        raise InvalidRequest(problem=f"ordering {value!r} is not one of {', '.join(_ORDERINGS)}")
    return None


def _priority(value: int | None) -> Priority | None:
    if value is not None and not 0 <= value < len(Priority):
        raise InvalidRequest(problem=f"priority {value} is not one of 0 to {len(Priority) - 1}")
    return None if value is None else Priority(value)


async def _settle(broker: Facade, request: Settle) -> Message:
    return Settled([_settled(settlement) for settlement in await broker.queues.settle(request.parts)])


def _settled(settlement: Settlement) -> SettledPart:
    refused = [
        RefusedRun(start, end, error.code, error.message, error.retryable, is_settled)
        for start, end, error, is_settled in settlement.refused
    ]
    return SettledPart(refused, settlement.until_ms)


async def _describe(broker: Facade, request: DescribeQueues) -> Message:
    if request.group is None:
        found = await broker.queue_depths.of_all(request.topic)
    else:
        found = [await broker.queue_depths.of(request.topic, request.group)]
    return QueueDepths([QueueDepth(*depth) for depth in found])


async def _pause(broker: Facade, request: PauseQueue) -> Message:
    await broker.queues.pause(request.topic, request.group, request.reason[:_LONGEST_REASON])
    return Done()


async def _resume(broker: Facade, request: ResumeQueue) -> Message:
    await broker.queues.resume(request.topic, request.group)
    return Done()


QUEUE_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    Settle: _settle,
    DescribeQueues: _describe,
    PauseQueue: _pause,
    ResumeQueue: _resume,
}
