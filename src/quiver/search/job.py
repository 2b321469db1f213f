"""One search: runs by itself, is asked for its progress, and can be cancelled."""

import asyncio
import logging
from typing import NamedTuple

from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.limits import PAGE_BYTES
from quiver.model.message import StoredMessage
from quiver.model.topic import Topic
from quiver.search.partition_walk import Filter
from quiver.search.request import SearchRequest, State, StoppedBy
from quiver.search.scan import stored_size
from quiver.search.topic_walk import TopicWalk
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue

logger = logging.getLogger(__name__)

UNASKED_SECONDS = 30.0
"""A search that nobody asks for is cancelled."""


class Progress(NamedTuple):
    """A search as it is now."""

    id: str
    topic: str
    where: str
    state: State
    scanned: int
    total: int
    """Offsets that were looked at, of how many."""
    scanned_messages: int
    scanned_bytes: int
    matched: int
    messages: list[StoredMessage]
    """What was found, without those before `after`."""
    cursor: str | None
    """Where to go on; None if everything was looked at, or while it runs."""
    stopped_by: StoppedBy | None
    error: str | None
    started_at_ms: int
    seconds: float


class SearchJob:
    def __init__(self, id: str, topic: Topic, request: SearchRequest, *, clock: Clock) -> None:
        self.id = id
        self.topic = topic
        self.request = request
        self._clock = clock
        self.state: State = "running"
        self.result_bytes = 0
        self.asked_at = self._started = clock.monotonic()
        self._started_ms = clock.now_ms()
        self._ended: float | None = None
        self._messages: list[StoredMessage] = []
        self._walk: TopicWalk | None = None
        self._filter: Filter | None = None
        self._stopped_by: StoppedBy | None = None
        self._error: str | None = None
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    async def run(self, walk: TopicWalk, filter: Filter, catalogue: TopicCatalogue, turn: asyncio.Semaphore) -> None:
        self._walk, self._filter = walk, filter
        try:
            await self._search(walk, catalogue, turn)
        except TopicNotFound:
            self._end("failed", error=f"topic {self.topic.name!r} was deleted while it was searched")
        except QuiverError as error:
            self._end("failed", error=error.message)
        except asyncio.CancelledError:
            self._end("cancelled", error="the broker is shutting down")
            raise
        except Exception:
            logger.exception("search %s of %s failed", self.id, self.topic.name)
            self._end("failed", error=QuiverError().message)

    async def _search(self, walk: TopicWalk, catalogue: TopicCatalogue, turn: asyncio.Semaphore) -> None:
        bounds = self.request.bounds
        while self.is_running:
            if walk.is_done:
                self._end("done")
                return
            self._stopped_by = self._bound(walk)
            if self._stopped_by is not None:
                self._end("done")
                return
            if not self._waiting and self._clock.monotonic() - self.asked_at > UNASKED_SECONDS:
                self._end("cancelled", error=f"nobody asked for its progress for {UNASKED_SECONDS:g} s")
                return
            async with turn:
                catalogue.topic_by_id(self.topic.id)
                try:
                    await walk.step(bounds.limit - len(self._messages))
                except QuiverError:
                    catalogue.topic_by_id(self.topic.id)  # TopicNotFound says more than what the read failed with
                    raise
            if self.is_running:
                self._take(walk)

    def _take(self, walk: TopicWalk) -> None:
        """Too much that waits for its place is released at once: memory is bounded, and the search advances."""
        is_full = self.result_bytes + walk.waiting_bytes >= PAGE_BYTES
        released = walk.release(self.request.bounds.limit - len(self._messages), all=is_full)
        if released:
            self._messages += released
            self.result_bytes += sum(map(stored_size, released))
            self._wake()

    def _bound(self, walk: TopicWalk) -> StoppedBy | None:
        bounds = self.request.bounds
        if len(self._messages) >= bounds.limit:
            return "limit"
        if self.result_bytes >= PAGE_BYTES:
            return "result_bytes"
        if bounds.max_messages is not None and walk.scanned_messages >= bounds.max_messages:
            return "max_messages"
        if bounds.max_bytes is not None and walk.scanned_bytes >= bounds.max_bytes:
            return "max_bytes"
        if self._clock.monotonic() - self._started >= bounds.max_seconds:
            return "max_seconds"
        return None

    def cancel(self) -> None:
        """Ends it, unless it has ended. What was found stays."""
        self.asked_at = self._clock.monotonic()
        if self.is_running:
            self._end("cancelled")

    def _end(self, state: State, *, error: str | None = None) -> None:
        if not self.is_running:
            return
        self.state, self._error = state, error
        self.asked_at = self._ended = self._clock.monotonic()
        if self._filter is not None:
            self._filter.is_stopped = True
        self._wake()

    async def wait(self, after: int, seconds: float) -> None:
        """Returns when there is a message after the first `after`, when the search has ended, or after some time."""
        until = self._clock.monotonic() + seconds
        while self.is_running and len(self._messages) <= after:
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            woken = asyncio.get_running_loop().create_future()
            self._waiting.add(woken)
            try:
                await asyncio.wait([woken], timeout=left)
            finally:
                self._waiting.discard(woken)
                self.asked_at = self._clock.monotonic()

    def _wake(self) -> None:
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    def progress(self, after: int = 0) -> Progress:
        self.asked_at = self._clock.monotonic()
        walk = self._walk
        cursor = walk.cursor() if walk is not None and not self.is_running else None
        return Progress(
            id=self.id,
            topic=self.topic.name,
            where=self.request.where.text,
            state=self.state,
            scanned=walk.scanned if walk is not None else 0,
            total=walk.total if walk is not None else 0,
            scanned_messages=walk.scanned_messages if walk is not None else 0,
            scanned_bytes=walk.scanned_bytes if walk is not None else 0,
            matched=len(self._messages),
            messages=self._messages[after:],
            cursor=None if cursor is None else str(cursor),
            stopped_by=self._stopped_by,
            error=self._error,
            started_at_ms=self._started_ms,
            seconds=(self._clock.monotonic() if self._ended is None else self._ended) - self._started,
        )
