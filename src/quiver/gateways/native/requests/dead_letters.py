"""What requests about dead letters ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.dead_letters.search import Search
from quiver.dead_letters.taking import DeadLettersTaken
from quiver.model.dead_letter import DeadLetterId
from quiver.model.errors import InvalidRequest
from quiver.model.limits import LISTED_AT_ONCE
from quiver.protocol.dead_letter_messages import (
    DeadLetters,
    ListDeadLetters,
    ListRemovedDeadLetters,
    PurgeDeadLetters,
    RedriveDeadLetters,
    RemovedDeadLetters,
    TakenDeadLetters,
)
from quiver.protocol.message import Message
from quiver.routing.facade import Facade


async def _list(broker: Facade, request: ListDeadLetters) -> Message:
    if request.limit < 1 or request.skip < 0:
        raise InvalidRequest(problem="limit is 1 or more, and skip 0 or more")
    page = await broker.dead_letters.page(
        request.topic,
        Search(request.filter, request.after, request.newest_first),
        limit=min(request.limit, LISTED_AT_ONCE),
        skip=request.skip,
    )
    return DeadLetters(page.dead_letters, page.total, page.next)


async def _redrive(broker: Facade, request: RedriveDeadLetters) -> Message:
    _check_limit(request.limit)
    at_ms = broker.clock.now_ms()
    taken = await broker.dead_letters.redrive(
        request.topic,
        Search(request.filter, request.after),
        limit=request.limit,
        to=request.to,
        dry_run=request.dry_run,
    )
    return _response(taken, at_ms)


async def _purge(broker: Facade, request: PurgeDeadLetters) -> Message:
    _check_limit(request.limit)
    at_ms = broker.clock.now_ms()
    taken = await broker.dead_letters.purge(
        request.topic, Search(request.filter, request.after), limit=request.limit, dry_run=request.dry_run
    )
    return _response(taken, at_ms)


async def _list_removed(broker: Facade, request: ListRemovedDeadLetters) -> Message:
    page = await broker.dead_letters.removed(request.topic, DeadLetterId(*request.start))
    return RemovedDeadLetters(page.runs, page.next)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InvalidRequest(problem="limit is 1 or more; leave it out for all")


def _response(taken: DeadLettersTaken, at_ms: int) -> TakenDeadLetters:
    return TakenDeadLetters(
        taken.dead_letter_count,
        [(id.partition, id.offset) for id in taken.ids],
        [(id.partition, id.offset) for id in taken.missing],
        taken.next,
        at_ms,
    )


DEAD_LETTER_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    ListDeadLetters: _list,
    RedriveDeadLetters: _redrive,
    PurgeDeadLetters: _purge,
    ListRemovedDeadLetters: _list_removed,
}
