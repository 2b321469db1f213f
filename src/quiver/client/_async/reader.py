"""The reader: fetches ahead, checks every frame, and gives single messages or whole batches."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from quiver.client._async.connection import Outbound
from quiver.client._async.link import AsyncLink, unexpected
from quiver.client._async.offsets import find_offsets
from quiver.client._backend_async import Waiter, flatten, sleep
from quiver.client.arrow_batch import arrow_batch
from quiver.client.backoff import backoff_seconds
from quiver.client.cursor import NO_END, Cursor, ReadFrame, StoredFrame
from quiver.client.message import Message, messages_of
from quiver.client.reader_options import ReaderOptions
from quiver.model.errors import (
    ConnectionLost,
    OffsetOutOfRange,
    PartitionNotFound,
    QuiverError,
    RequestTimeout,
    error_from_wire,
)
from quiver.model.position import EARLIEST, Position
from quiver.protocol.messages import Answer, Failure, Fetch, Fetched, FetchedPart, FetchPart, TopicInfo

_Arrived = tuple[Answer | QuiverError, memoryview]
_LOOK_FOR_PARTITIONS_SECONDS = 10.0


class AsyncReader:
    """Reads partitions of a topic without a group. Iterate it for messages, or over `batches()`.

    It begins where `start` says when it is opened: by `open`, a `with` block, or the first message asked for.
    Within a partition messages come in order. One fetch is under way while the last one is read.
    """

    def __init__(self, link: AsyncLink, topic: str, options: ReaderOptions) -> None:
        self.topic = topic
        self.lost_count = 0
        """Messages that retention removed before they were read."""
        self._link = link
        self._options = options
        self._cursors: list[Cursor] = []
        self._info: TopicInfo | None = None
        self._looked_at = 0.0
        self._failures = 0
        self._is_closed = False
        self._reading: AsyncIterator[ReadFrame] = self._read()
        self._messages: AsyncIterator[Message] = flatten(self._message_groups())

    async def open(self) -> None:
        """Fixes where reading starts and ends; TopicNotFound, PartitionNotFound."""
        if self._info is not None:
            return
        info = await self._link.topic(self.topic)
        wanted = self._options.partitions
        numbers = range(info.partitions) if wanted is None else wanted
        for number in numbers:
            if number >= info.partitions:
                raise PartitionNotFound(topic=self.topic, count=info.partitions, partition=number)
        starts = await self._resolve(info, numbers, self._options.start)
        ends = await self._resolve(info, numbers, self._options.end)
        for number in numbers:
            end = ends[number]
            self._cursors.append(Cursor(number, starts[number] or 0, NO_END if end is None else end))
        self._looked_at = self._link.clock.monotonic()
        self._info = info

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow batches: partition, offset, timestamp, append_time, key, value, headers, priority."""
        async for read in self._reading:
            yield arrow_batch(read)

    @property
    def positions(self) -> dict[int, int]:
        """Per partition, the next offset that will be fetched."""
        return {cursor.partition: cursor.offset for cursor in self._cursors}

    async def __aenter__(self) -> "AsyncReader":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the iteration; what was fetched ahead is let go."""
        self._is_closed = True

    async def _message_groups(self) -> AsyncIterator[Iterable[Message]]:
        async for read in self._reading:
            yield messages_of(read.frame, self.topic, read.partition, read.start, read.stop)

    async def _read(self) -> AsyncIterator[ReadFrame]:
        await self.open()
        limits = self._options.limits
        fetch = await self._begin_fetch()
        while fetch is not None and not self._is_closed:
            frames, error = await self._end_fetch(fetch)
            fetch = await self._begin_fetch() if error is None else None
            for stored in frames:
                if self._is_closed:
                    return
                yield stored.open(self.topic, limits)
            if error is not None:
                raise error

    async def _begin_fetch(self) -> "Waiter[_Arrived] | None":
        """Sends the next request; None when everything was read."""
        await self._look_for_partitions()
        open_cursors = [cursor for cursor in self._cursors if not cursor.is_finished]
        if not open_cursors or self._info is None:
            return None
        options = self._options
        waits = not all(cursor.has_all_there_is_to_come for cursor in open_cursors)
        request = Fetch(
            [FetchPart(self._info.id, cursor.partition, cursor.offset, options.max_bytes) for cursor in open_cursors],
            options.max_wait_ms if waits else 0,
            1,
            options.max_bytes,
        )
        self._cursors.append(self._cursors.pop(0))  # no partition is always the last to be served
        waiter: Waiter[_Arrived] = Waiter()
        try:
            connection = await self._link.connection()
        except ConnectionLost as error:
            waiter.set((error, memoryview(b"")))
            return waiter
        await connection.send([Outbound(request, None, lambda answer, payload: waiter.set((answer, payload)))])
        return waiter

    async def _end_fetch(self, fetch: "Waiter[_Arrived]") -> tuple[list[StoredFrame], QuiverError | None]:
        """The frames of an answer, and the error to raise behind them."""
        timeout = self._options.max_wait_ms / 1000 + self._link.timeout
        try:
            arrived = await fetch.wait(timeout)
        except TimeoutError:
            problem = f"no answer for {timeout:g} s"
            (await self._link.connection()).fail(ConnectionLost(address=self._link.address, problem=problem))
            return [], None
        assert arrived is not None
        answer, payload = arrived
        if isinstance(answer, Failure):
            answer = error_from_wire(answer.code, answer.message, answer.retryable)
        if isinstance(answer, QuiverError):
            return [], await self._after_error(answer)
        if not isinstance(answer, Fetched):
            return [], unexpected(answer)
        return await self._take(answer, payload)

    async def _take(self, answer: Fetched, payload: memoryview) -> tuple[list[StoredFrame], QuiverError | None]:
        by_partition = {cursor.partition: cursor for cursor in self._cursors}
        frames: list[StoredFrame] = []
        first_error: QuiverError | None = None
        position = 0
        for part in answer.parts:
            cursor = by_partition[part.partition]
            piece = payload[position : position + part.length]
            position += part.length
            try:
                if part.error is not None:
                    await self._recover(cursor, part)
                else:
                    frames += cursor.take(self.topic, part, piece)
            except QuiverError as error:
                first_error = first_error or error
        if first_error is None:
            self._failures = 0
            if position == 0 and not any(part.error for part in answer.parts):
                for cursor in self._cursors:
                    cursor.found_nothing()
        return frames, first_error

    async def _recover(self, cursor: Cursor, part: FetchedPart) -> None:
        """Goes on where one can: behind what retention removed, or a little later. Raises otherwise."""
        assert part.error is not None
        assert self._info is not None
        error = error_from_wire(part.error.code, part.error.message, part.error.retryable)
        if isinstance(error, OffsetOutOfRange):
            earliest = (await find_offsets(self._link, self._info, {cursor.partition: EARLIEST}))[cursor.partition]
            if cursor.offset < earliest:
                self.lost_count += earliest - cursor.offset
                cursor.offset = earliest
                return
        unsolved = await self._after_error(error)
        if unsolved is not None:
            raise unsolved

    async def _after_error(self, error: QuiverError) -> QuiverError | None:
        """Waits a little before another try; the error itself when there is no use in one."""
        if not error.retryable or isinstance(error, RequestTimeout) or self._is_closed:
            return error
        if isinstance(error, ConnectionLost) and self._link.is_closed:
            return error
        await sleep(backoff_seconds(self._failures, self._link.randomness.jitter()))
        self._failures += 1
        return None

    async def _look_for_partitions(self) -> None:
        """A reader of all partitions that follows finds those that are added, from their first message on."""
        now = self._link.clock.monotonic()
        if self._info is None or not self._options.follows_growth:
            return
        if now - self._looked_at < _LOOK_FOR_PARTITIONS_SECONDS:
            return
        self._looked_at = now
        try:
            info = await self._link.topic(self.topic)
        except ConnectionLost:
            return
        if info.id == self._info.id:
            self._cursors += [Cursor(number, 0) for number in range(self._info.partitions, info.partitions)]
            self._info = info

    async def _resolve(
        self, info: TopicInfo, numbers: Sequence[int], wanted: Position | Mapping[int, Position] | None
    ) -> dict[int, int | None]:
        positions = {
            number: wanted if wanted is None or isinstance(wanted, Position) else wanted.get(number)
            for number in numbers
        }
        found: dict[int, int | None] = dict.fromkeys(numbers)
        asked = {n: p for n, p in positions.items() if p is not None and p.kind != "offset"}
        if asked:
            found |= await find_offsets(self._link, info, asked)
        found |= {n: p.value for n, p in positions.items() if p is not None and p.kind == "offset"}
        return found
