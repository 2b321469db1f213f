"""Fetches ahead for a set of partitions that may change at any time."""

import contextlib
from collections import deque
from collections.abc import Iterable

from quiver.client._async.connection.connection import AsyncConnection, Outbound
from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client._backend_async import Signal, sleep
from quiver.client.read.cursor import Cursor, StoredFrame
from quiver.client.read.expiry import expiry_of
from quiver.client.read.options import FetcherConfig
from quiver.client.read.partition_source import PartitionSource
from quiver.model.errors import ConnectionLost, OffsetOutOfRange, QuiverError, TopicNotFound, error_from_wire
from quiver.model.position import EARLIEST
from quiver.protocol.messages import (
    Failure,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListOffsets,
    OffsetPart,
    Offsets,
    Response,
)
from quiver.structures.ordered_set import OrderedSet

_Asked = list[tuple[PartitionSource, Cursor]]
_Arrived = tuple[_Asked, Response | QuiverError, memoryview, float]
FetchedFrame = tuple[PartitionSource, StoredFrame]

_LARGE_BYTES = 32 * 1024
_MOST_REQUESTS = 4
"""Requests in flight or unread, which bounds the memory for fetching ahead."""


class AsyncFetcher:
    """Each partition is in one request at a time; added partitions soon get a request of their own."""

    def __init__(self, broker: AsyncReconnectingConnection, config: FetcherConfig) -> None:
        self._broker, self._config = broker, config
        self._sources: list[PartitionSource] = []
        self._arrived: deque[_Arrived] = deque()
        self._news = Signal()
        self._asked: OrderedSet[AsyncConnection] = OrderedSet()
        """Connections that have not answered all requests."""
        self._unread_count = 0
        self._was_large = False
        """The last answer was worth being received while the one before is processed."""
        self._last_answer_at = 0.0
        self._backoff = broker.new_backoff()
        self._deadline: float | None = None
        self._error: QuiverError | None = None
        self.lost_count = 0
        """Messages that retention removed before they were read."""

    def add(self, sources: Iterable[PartitionSource]) -> None:
        self._sources.extend(sources)

    def wake(self) -> None:
        """Makes `next_frames` return soon. Only this may be called from other threads and tasks."""
        self._news.set()

    async def next_frames(self, timeout: float | None = None) -> list[FetchedFrame]:
        """Frames of one response; none after a wait without any, or when woken.

        After a large response the next request is in flight by then. After a small one the next call sends it: the
        caller has its message earlier, and what is published meanwhile comes with one response.

        It waits for at most `timeout` seconds, also for a connection. An error is raised after the frames that were
        read before it were returned.
        """
        self._broker.check_fork()
        self._deadline = None if timeout is None else self._broker.clock.monotonic() + timeout
        error, self._error = self._error, None
        if error is not None:
            raise error
        await self._begin()
        if not self._arrived:
            await self._broker.wait(self._news, self._within(self._answer_seconds))
            self._check_answers()
        self._news.clear()
        if not self._arrived:
            return []
        asked, answer, payload, arrived_at = self._arrived.popleft()
        self._unread_count -= 1
        self._asked = OrderedSet((each, None) for each in self._asked if each.is_open and each.has_requests)
        self._was_large = len(payload) > _LARGE_BYTES
        self._last_answer_at = self._broker.clock.monotonic()
        for source, cursor in asked:
            if source.cursor is cursor:
                source.is_fetching = False
        frames = await self._take(asked, answer, payload, arrived_at)
        if self._error is None:
            if self._was_large:
                await self._begin()
        elif not frames:
            return await self.next_frames(timeout)
        return frames

    def _within(self, seconds: float) -> float:
        """That long, but not beyond the deadline."""
        left = seconds if self._deadline is None else self._deadline - self._broker.clock.monotonic()
        return max(0.001, min(seconds, left))

    @property
    def _answer_seconds(self) -> float:
        return self._config.max_wait_ms / 1000 + self._broker.timeout

    def _check_answers(self) -> None:
        """Drops a connection that should have responded by now."""
        waited = self._broker.clock.monotonic() - self._last_answer_at
        is_due = self._unread_count > 0 and not self._arrived
        if is_due and waited > self._answer_seconds:
            problem = f"no response for {waited:.0f} s"
            for connection in list(self._asked):
                connection.fail(ConnectionLost(address=connection.address, problem=problem))

    async def _begin(self) -> None:
        if self._unread_count >= _MOST_REQUESTS:
            return
        self._sources = [source for source in self._sources if not source.is_gone]
        idle = [source for source in self._sources if source.is_idle]
        for owner, owned in (await self._by_owner(idle)).items():
            await self._ask(owner, owned)

    async def _by_owner(
        self, sources: list[PartitionSource]
    ) -> dict[AsyncReconnectingConnection, list[PartitionSource]]:
        """By the connection that leads to their owner; of a broker with one worker, there is one."""
        if not self._broker.has_workers:
            return {self._broker: sources} if sources else {}
        by_owner: dict[AsyncReconnectingConnection, list[PartitionSource]] = {}
        for source in sources:
            if not self._broker.knows_owners(source.topic_id):
                with contextlib.suppress(QuiverError):  # whoever gets the request passes it on
                    await self._broker.topic(source.topic, self._within(self._broker.timeout))
            owner = self._broker.of_partition(source.topic_id, source.partition)
            by_owner.setdefault(owner, []).append(source)
        return by_owner

    async def _ask(self, owner: AsyncReconnectingConnection, idle: list[PartitionSource]) -> None:
        asked = [(source, source.cursor) for source in idle]
        for source in idle:
            source.is_fetching = True
        waits = not all(cursor.has_all_there_is_to_come for _, cursor in asked)
        request = Fetch(
            [FetchPart(s.topic_id, s.partition, cursor.offset, self._config.max_bytes) for s, cursor in asked],
            self._config.max_wait_ms if waits else 0,
            1,
            self._config.max_bytes,
            self._config.read_committed,
            nearest=self._config.nearest,
        )
        if self._unread_count == 0:
            self._last_answer_at = self._broker.clock.monotonic()
        self._unread_count += 1

        def on_answer(answer: Response | QuiverError, payload: memoryview) -> None:
            self._arrived.append((asked, answer, payload, self._broker.clock.monotonic()))
            self._news.set()

        try:
            connection = await owner.connection(self._within(self._broker.timeout))
        except QuiverError as error:
            on_answer(error, memoryview(b""))
            return
        self._asked.add(connection)
        is_waited_for = owner is self._broker and not (self._was_large or self._arrived)
        await connection.send([Outbound(request, None, on_answer)], is_waited_for=is_waited_for)

    async def _take(
        self, asked: _Asked, answer: Response | QuiverError, payload: memoryview, arrived_at: float
    ) -> list[FetchedFrame]:
        if isinstance(answer, Failure):
            answer = error_from_wire(answer.code, answer.message, answer.retryable)
        if isinstance(answer, QuiverError):
            await self._pause_after(answer)
            return []
        if not isinstance(answer, Fetched) or len(answer.parts) != len(asked):
            raise unexpected(answer)
        self._backoff.reset()
        frames: list[FetchedFrame] = []
        position, read_committed = 0, self._config.read_committed
        for (source, cursor), part in zip(asked, answer.parts, strict=True):
            start, position = position, position + part.length
            if source.is_gone or source.cursor is not cursor:
                continue
            try:
                if part.error is not None:
                    await self._recover(source, part)
                elif not payload:  # a part can also be empty because others filled the response
                    source.found_nothing(part, read_committed=read_committed)
                elif not part.length:
                    cursor.note_end(part, read_committed=read_committed)
                else:
                    expiry = (
                        None if self._config.include_expired else expiry_of(answer.now_ms, arrived_at, part.ttl_ms)
                    )
                    piece = payload[start:position]
                    taken = cursor.take(source.topic, part, piece, read_committed=read_committed, expiry=expiry)
                    frames += [(source, frame) for frame in taken]
            except QuiverError as error:
                self._error = self._error or error
        if frames:
            self._put_last({source for source, _ in frames})
        return frames

    def _put_last(self, served: set[PartitionSource]) -> None:
        """The next request names the others first: a response has room for the first ones."""
        self._sources.sort(key=served.__contains__)

    async def _recover(self, source: PartitionSource, part: FetchedPart) -> None:
        """Continues after what retention removed, or tries again a little later; raises other errors."""
        assert part.error is not None
        error = error_from_wire(part.error.code, part.error.message, part.error.retryable)
        if isinstance(error, TopicNotFound) and self._config.skips_missing:
            source.is_gone = True
            return
        if isinstance(error, OffsetOutOfRange):
            earliest = part.log_start if part.removed_count is not None else await self._earliest(source)
            if source.cursor.offset < earliest:
                missed = earliest - source.cursor.offset
                self.lost_count += missed if part.removed_count is None else part.removed_count
                source.cursor.offset = earliest
                source.position = max(source.position, earliest)
                return
        await self._pause_after(error)

    async def _earliest(self, source: PartitionSource) -> int:
        request = ListOffsets([OffsetPart(*source.key, EARLIEST)])
        answer = (await self._broker.call(request, timeout=self._within(self._broker.timeout))).answer
        if not isinstance(answer, Offsets):
            raise unexpected(answer)
        return answer.offsets[0].offset

    async def _pause_after(self, error: QuiverError) -> None:
        if not error.retryable or self._broker.is_closed:
            raise error
        wait = self._backoff.next_seconds()
        self._broker.log.retrying("fetching", error, self._backoff.failures, wait)
        await sleep(self._within(wait))
