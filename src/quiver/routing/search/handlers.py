"""What this worker searches and follows for others."""

import asyncio
from collections.abc import AsyncGenerator

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.model.errors import SearchNotFound
from quiver.model.message import StoredMessage
from quiver.model.topic import Topic
from quiver.routing.search.requests import (
    Cancel,
    CloseTail,
    GetProgress,
    Looked,
    NextPart,
    OpenTail,
    OpenWalk,
    StepWalk,
)
from quiver.search.job import Progress
from quiver.search.language.expression import Expression
from quiver.search.partition_walk import Filter, WalkState
from quiver.search.request import SearchRequest
from quiver.search.tail import TailPart, TailRequest

_UNASKED_SECONDS = 60.0
"""A tail that is not asked for this long is closed: the worker that followed it is gone."""


class SearchHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        handlers.add(OpenWalk, self._open_walk)
        handlers.add(StepWalk, self._step_walk)
        handlers.add(GetProgress, self._progress)
        handlers.add(Cancel, self._cancel)

    async def _open_walk(self, request: OpenWalk, payload: memoryview) -> Reply[WalkState]:
        wanted = request.wanted
        topic, search = self._topic(wanted), _request(wanted)._replace(start=request.start, end=request.end)
        walk = await self._broker.searches.open_own_walk(
            topic, wanted.partition, search, _filter(wanted, topic), request.cursor
        )
        return Reply(walk.state)

    async def _step_walk(
        self, request: StepWalk, payload: memoryview
    ) -> Reply[tuple[WalkState, list[StoredMessage]]]:
        wanted = request.wanted
        topic = self._topic(wanted)
        filter = _filter(wanted, topic)
        walk = self._broker.searches.own_walk_at(topic, wanted.partition, filter, request.state)
        try:
            messages = await walk.step(request.limit)
        except asyncio.CancelledError:
            filter.is_stopped = True
            raise
        return Reply((walk.state, messages))

    async def _progress(self, request: GetProgress, payload: memoryview) -> Reply[Progress]:
        found = await self._broker.searches.progress(
            request.id, after=request.after, wait_seconds=request.wait_seconds
        )
        return Reply(found)

    async def _cancel(self, request: Cancel, payload: memoryview) -> Reply[Progress]:
        return Reply(await self._broker.searches.cancel(request.id))

    def _topic(self, wanted: Looked) -> Topic:
        return self._broker.metadata.catalogue.topic_by_id(wanted.topic_id)


class TailHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        self._tails: dict[int, AsyncGenerator[TailPart, None]] = {}
        self._ends: dict[int, asyncio.TimerHandle] = {}
        self._last = 0
        handlers.add(OpenTail, self._open)
        handlers.add(NextPart, self._next)
        handlers.add(CloseTail, self._close)

    async def _open(self, request: OpenTail, payload: memoryview) -> Reply[int]:
        where = None if request.where is None else Expression(request.where)
        tail = await self._broker.tails.follow(TailRequest(request.topic, where, request.rate, request.partition))
        await anext(tail)  # from here on it follows
        self._last += 1
        self._tails[self._last] = tail
        self._expect(self._last)
        return Reply(self._last)

    async def _next(self, request: NextPart, payload: memoryview) -> Reply[TailPart]:
        tail = self._tails.get(request.tail)
        if tail is None:
            raise SearchNotFound(search=request.tail)
        self._ends[request.tail].cancel()
        try:
            part = await anext(tail)
        except BaseException:
            self._forget(request.tail)
            raise
        self._expect(request.tail)
        return Reply(part)

    async def _close(self, request: CloseTail, payload: memoryview) -> Reply[None]:
        tail = self._forget(request.tail)
        if tail is not None:
            await tail.aclose()
        return DONE

    def _expect(self, number: int) -> None:
        self._ends[number] = asyncio.get_running_loop().call_later(_UNASKED_SECONDS, self._end, number)

    def _end(self, number: int) -> None:
        tail = self._forget(number)
        if tail is not None:
            asyncio.get_running_loop().create_task(_closed(tail), name="end of a tail")

    def _forget(self, number: int) -> AsyncGenerator[TailPart, None] | None:
        timer = self._ends.pop(number, None)
        if timer is not None:
            timer.cancel()
        return self._tails.pop(number, None)


async def _closed(tail: AsyncGenerator[TailPart, None]) -> None:
    await tail.aclose()


def _request(wanted: Looked) -> SearchRequest:
    return SearchRequest(
        Expression(wanted.where), newest_first=wanted.newest_first, include_expired=wanted.include_expired
    )


def _filter(wanted: Looked, topic: Topic) -> Filter:
    return Filter(_request(wanted), now_ms=wanted.now_ms, ttl_ms=topic.config.ttl_ms)
