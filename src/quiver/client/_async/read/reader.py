"""Reading without a group: single messages or whole batches, up to an end or forever."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection
from quiver.client._async.read.fetcher import AsyncFetcher
from quiver.client._async.read.offsets import find_offsets
from quiver.client._backend_async import flatten
from quiver.client.message import Message, messages_of
from quiver.client.raise_once import RaiseOnce
from quiver.client.read.arrow_batch import arrow_batch
from quiver.client.read.cursor import NO_END, ReadFrame
from quiver.client.read.options import FetcherConfig, ReaderConfig
from quiver.client.read.partition_source import PartitionSource
from quiver.client.wait_limit import WaitLimit
from quiver.model.errors import ConnectionLost, MessageTimeout, PartitionNotFound, RequestTimeout
from quiver.model.position import Position
from quiver.protocol.messages import TopicInfo

_LOOK_FOR_PARTITIONS_SECONDS = 10.0


class AsyncReader:
    """Reads partitions of a topic without a group. Iterate it for messages, or over `batches()`.

    It begins at `start` when it is opened: by `open`, a `with` block, or asking for the first message. Within a
    partition messages come in order. While a large response is read, the next fetch is in flight.
    """

    def __init__(self, broker: AsyncReconnectingConnection, topic: str, config: ReaderConfig) -> None:
        self.topic = topic
        self._broker = broker
        self._config = config
        self._fetcher = AsyncFetcher(
            broker,
            FetcherConfig(
                config.max_bytes,
                config.max_wait_ms,
                read_committed=config.read_committed,
                include_expired=config.include_expired,
                nearest=config.nearest,
            ),
        )
        self.expired_count = 0
        """Messages that were left out because they were expired."""
        self._sources: list[PartitionSource] = []
        self._wait_limit = WaitLimit(broker.clock, broker.log, config.timeout_seconds)
        self._info: TopicInfo | None = None
        self._looked_at = 0.0
        self._is_closed = False
        self._reading: AsyncIterator[ReadFrame | MessageTimeout] = self._read()
        self._messages: AsyncIterator[Message] = flatten(self._message_groups())

    async def open(self) -> None:
        """Determines where reading starts and ends. Raises TopicNotFound, PartitionNotFound."""
        if self._info is not None:
            return
        self._wait_limit.restart()
        info = await self._broker.topic(self.topic, self._wait_limit.left)
        wanted = self._config.partitions
        numbers = range(info.partitions) if wanted is None else wanted
        for number in numbers:
            if number >= info.partitions:
                raise PartitionNotFound(topic=self.topic, count=info.partitions, partition=number)
        starts = await self._resolve(info, numbers, self._config.start)
        ends = await self._resolve(info, numbers, self._config.end)
        for number in numbers:
            end = ends[number]
            self._begin(info, number, starts[number] or 0, NO_END if end is None else end)
        self._looked_at = self._broker.clock.monotonic()
        self._info = info

    def _begin(self, info: TopicInfo, partition: int, offset: int, end: int = NO_END) -> None:
        source = PartitionSource(info.id, self.topic, partition, offset, end)
        self._sources.append(source)
        self._fetcher.add([source])

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages

    def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow batches: partition, offset, timestamp, append_time, key, value, headers, priority."""
        return flatten(self._batch_groups())

    @property
    def positions(self) -> dict[int, int]:
        """The next offset to fetch per partition; the end once everything is read."""
        return {source.partition: min(source.cursor.offset, source.cursor.end) for source in self._sources}

    @property
    def lost_count(self) -> int:
        """Messages that retention removed before they were read."""
        return self._fetcher.lost_count

    async def __aenter__(self) -> "AsyncReader":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the iteration; what was fetched ahead is dropped."""
        self._is_closed = True
        self._fetcher.wake()

    async def _batch_groups(self) -> AsyncIterator[Iterable[pa.RecordBatch]]:
        async for read in self._reading:
            yield RaiseOnce(read) if isinstance(read, MessageTimeout) else [arrow_batch(read)]

    async def _message_groups(self) -> AsyncIterator[Iterable[Message]]:
        async for read in self._reading:
            yield RaiseOnce(read) if isinstance(read, MessageTimeout) else messages_of(read, self.topic)

    async def _read(self) -> AsyncIterator[ReadFrame | MessageTimeout]:
        await self.open()
        limit = self._wait_limit
        while not self._is_closed and not all(source.cursor.is_finished for source in self._sources):
            await self._look_for_partitions()
            has_waited = True
            for _, stored in await self._fetcher.next_frames(limit.left):
                if self._is_closed:
                    return
                if not stored.is_hidden:
                    read = stored.open(self.topic, self._config.limits, self._broker.clock.monotonic())
                    self.expired_count += read.expired_count
                    if read.is_empty:
                        continue
                    yield read
                    limit.restart()
                    has_waited = False
            if has_waited and limit.is_over:
                yield limit.error()
                limit.restart()

    async def _look_for_partitions(self) -> None:
        """A reader of all partitions without an end also reads partitions that are added, from their first message
        on."""
        now = self._broker.clock.monotonic()
        if self._info is None or not self._config.follows_growth:
            return
        if now - self._looked_at < _LOOK_FOR_PARTITIONS_SECONDS:
            return
        self._looked_at = now
        try:
            info = await self._broker.topic(self.topic, self._wait_limit.left)
        except (ConnectionLost, RequestTimeout):
            return
        if info.id == self._info.id:
            for number in range(self._info.partitions, info.partitions):
                self._begin(info, number, 0)
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
            found |= await find_offsets(
                self._broker,
                info.id,
                asked,
                read_committed=self._config.read_committed,
                timeout=self._wait_limit.left,
            )
        found |= {n: p.value for n, p in positions.items() if p is not None and p.kind == "offset"}
        return found
