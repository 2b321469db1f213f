"""What requests about dead letters ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.broker.broker import Broker
from quiver.dead_letters.search import Search
from quiver.dead_letters.service import MAX_LIMIT, LettersTaken
from quiver.model.dead_letter import LetterId
from quiver.model.errors import InvalidRequest
from quiver.protocol.dead_letter_messages import (
    Letters,
    ListLetters,
    ListRemovedLetters,
    PurgeLetters,
    RedriveLetters,
    RemovedLetters,
    TakenLetters,
)
from quiver.protocol.message import Message


async def _list(broker: Broker, request: ListLetters) -> Message:
    if request.limit < 1 or request.skip < 0:
        raise InvalidRequest(problem="limit is 1 or more, and skip 0 or more")
    page = await broker.dead_letters.page(
        request.topic,
        Search(request.filter, request.after, request.newest_first),
        limit=min(request.limit, MAX_LIMIT),
        skip=request.skip,
    )
    return Letters(page.letters, page.total, page.next)


async def _redrive(broker: Broker, request: RedriveLetters) -> Message:
    _check_limit(request.limit)
    at_ms = broker.clock.now_ms()
    taken = await broker.dead_letters.redrive(
        request.topic,
        Search(request.filter, request.after),
        limit=request.limit,
        to=request.to,
        dry_run=request.dry_run,
    )
    return _answer(taken, at_ms)


async def _purge(broker: Broker, request: PurgeLetters) -> Message:
    _check_limit(request.limit)
    at_ms = broker.clock.now_ms()
    taken = await broker.dead_letters.purge(
        request.topic, Search(request.filter, request.after), limit=request.limit, dry_run=request.dry_run
    )
    return _answer(taken, at_ms)


async def _list_removed(broker: Broker, request: ListRemovedLetters) -> Message:
    page = broker.dead_letters.removed(request.topic, LetterId(*request.start))
    return RemovedLetters(page.runs, page.next)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InvalidRequest(problem="limit is 1 or more; leave it out for all")


def _answer(taken: LettersTaken, at_ms: int) -> TakenLetters:
    return TakenLetters(
        taken.letter_count,
        [(id.partition, id.offset) for id in taken.ids],
        [(id.partition, id.offset) for id in taken.missing],
        taken.next,
        at_ms,
    )


DEAD_LETTER_ANSWERS: dict[type[Message], Callable[[Broker, Any], Awaitable[Message]]] = {
    ListLetters: _list,
    RedriveLetters: _redrive,
    PurgeLetters: _purge,
    ListRemovedLetters: _list_removed,
}
