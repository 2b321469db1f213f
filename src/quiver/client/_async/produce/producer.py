"""The producer: gathers messages into chunks, applies backpressure, and hands the chunks over."""

import logging
import math
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Unpack

import pyarrow as pa

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection
from quiver.client._async.produce.send_future import AsyncBulkSendFuture, AsyncSendFuture
from quiver.client._async.produce.sender import AsyncSender
from quiver.client._backend_async import Signal, Task, Waiter
from quiver.client.connection.fork import watch_forks
from quiver.client.produce.bulk import bulk_rows
from quiver.client.produce.chunk import SEALED_CHUNK, SMALL_KEY_BYTES, SMALL_VALUE_BYTES, BulkRows, Chunk, Route
from quiver.client.produce.options import DELAYED_BATCH_BYTES, DELAYED_BATCH_MESSAGES, ProducerConfig, SendOptions
from quiver.client.produce.outgoing import PLAIN_ROUTE, check_options, deliver_at_ms, outgoing, route_of
from quiver.client.produce.payload import message_bytes
from quiver.client.produce.rows import Rows
from quiver.client.produce.send_outcome import SendOutcome
from quiver.model.errors import BufferFull, Closed, MessageTooLarge, PartitionNotFound, QuiverError, RequestTimeout
from quiver.model.times import Duration, wait_seconds
from quiver.protocol.messages import TopicInfo
from quiver.structures.ordered_set import OrderedSet

_logger = logging.getLogger(__name__)
_GIVE_UP_SECONDS = 5.0


class _OwnChunk(threading.local):
    """A sealed, empty chunk until the thread has one of its own."""

    chunk: Any = SEALED_CHUNK


class AsyncProducer:
    """Sends messages to one topic: batched, in order, each once.

    Use it in a `with` block, which ends with `flush` and `close`. In the synchronous SDK threads may share one; order
    holds within each thread.
    """

    def __init__(self, broker: AsyncReconnectingConnection, topic: str, options: ProducerConfig) -> None:
        self.topic = topic
        self._broker = broker
        self._options = options
        self._mutex = threading.Lock()
        self._own = _OwnChunk()
        """The calling thread's chunk, for messages without options."""
        self._routes: dict[Route, Chunk] = {}
        """All threads' chunks for messages with a priority or partition of their own."""
        self._open: OrderedSet[Chunk] = OrderedSet()
        """Every chunk that has messages and is not sealed."""
        self._sender = AsyncSender(broker, topic, options, gather=self._seal_due, wake=self.wake)
        self._signal: Signal | None = None
        self._task: Task | None = None
        self._is_asleep = False
        self._flushing = 0
        self.is_closed = False
        watch_forks(self)

    async def __aenter__(self) -> "AsyncProducer":
        await self._sender.load_topic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close(timeout=_GIVE_UP_SECONDS)
        except QuiverError as problem:
            _logger.warning("messages to %s were not delivered: %s", self.topic, problem)

    async def send(
        self, value: Any, key: bytes | str | None = None, **options: Unpack[SendOptions]
    ) -> AsyncSendFuture:
        """Takes one message, to be sent with others; the future tells where it ended up.

        `value` is bytes, text or anything that becomes JSON; None is a tombstone. Waits while the buffer is full,
        then raises BufferFull. Options: headers, timestamp, partition, priority, ttl, delay, deliver_at, id.
        """
        # The lines below run a million times a second: see Chunk for why they need no lock.
        if not options and type(value) is bytes and len(value) <= SMALL_VALUE_BYTES:
            chunk = self._own.chunk
            values, keys = chunk.values, chunk.keys
            row = len(values)
            if key is None:
                if row < chunk.plain_until:
                    values.append(value)
                    if row < chunk.plain_until or self._keeps(chunk, row):
                        return AsyncSendFuture(chunk.outcome, row)
            elif keys is not None and row < chunk.keyed_until:
                if type(key) is str:
                    key = key.encode()
                if type(key) is bytes and len(key) <= SMALL_KEY_BYTES:
                    keys.append(key)
                    values.append(value)
                    if row < chunk.keyed_until or self._keeps(chunk, row):
                        return AsyncSendFuture(chunk.outcome, row)
        return await self._send_any(value, key, options)

    async def send_many(
        self,
        values: Iterable[Any],
        keys: Iterable[bytes | str | None] | None = None,
        ids: Iterable[bytes | str | None] | None = None,
        **options: Unpack[SendOptions],
    ) -> AsyncBulkSendFuture:
        """Takes many messages at once, far faster than one by one; the options hold for all of them."""
        check_options(options)
        route, outcome = route_of(options), SendOutcome(self.topic)
        now_ms = self._broker.clock.now_ms()
        try:
            for rows in bulk_rows(values, keys, options, now_ms, ids):
                await self._send_rows(rows, route, outcome)
        finally:
            self._complete(outcome)
        return AsyncBulkSendFuture(outcome)

    async def send_arrow(
        self, data: pa.Table | pa.RecordBatch, **options: Unpack[SendOptions]
    ) -> AsyncBulkSendFuture:
        """Takes the rows of an Arrow table: columns `value`, and if there `key`, `timestamp`, `headers`, `id`.

        Options: partition, priority, delay, deliver_at.
        """
        check_options(options)
        route, outcome = route_of(options), SendOutcome(self.topic)
        now_ms = self._broker.clock.now_ms()
        due_ms = deliver_at_ms(options, now_ms)
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        try:
            for batch in batches:
                if batch.num_rows:
                    rows = Rows.from_arrow(batch, now_ms)
                    await self._send_rows(rows if due_ms is None else rows.delayed_until(due_ms), route, outcome)
        finally:
            self._complete(outcome)
        return AsyncBulkSendFuture(outcome)

    async def flush(self, timeout: Duration | None = None) -> None:
        """Returns when every message taken so far is stored; raises the first failure that no future has shown."""
        self._broker.check_fork()
        seconds = wait_seconds(timeout)
        self._flushing += 1
        try:
            await self._sender.pump()
            await self._wait_for(lambda: self._sender.unsettled_count == 0 and not self._open, seconds)
        except TimeoutError:
            raise RequestTimeout(seconds=seconds) from None
        finally:
            self._flushing -= 1
        self._sender.raise_unseen()

    async def close(self, timeout: Duration | None = None) -> None:
        """Flushes and ends; what cannot be delivered within `timeout` fails. Safe to call again.

        In a forked child it does nothing: the messages are the parent's.
        """
        if self.is_closed or self._broker.is_forked:
            self.is_closed = True
            return
        with self._mutex:
            self.is_closed = True
            for chunk in self._open:
                chunk.close_window()
        try:
            await self.flush(timeout)
        finally:
            self._sender.close(Closed(what=f"the producer for {self.topic!r}"))
            if self._task is not None and self._signal is not None:
                self._signal.set()
                await self._task.join()

    def after_fork(self, parent_pid: int) -> None:
        self._mutex = threading.Lock()
        for chunk in self._open:
            chunk.close_window()
        self._sender.after_fork()

    # gathering

    async def send_within(self, seconds: float, value: Any, key: Any, options: SendOptions) -> AsyncSendFuture:
        """As `send`, for whoever waits no longer than that, whatever has to be found out first."""
        return await self._send_any(value, key, options, self._broker.clock.monotonic() + seconds)

    async def _send_any(
        self, value: Any, key: Any, options: SendOptions, deadline: float | None = None
    ) -> AsyncSendFuture:
        message, route = outgoing(value, key, options, self._broker.clock.now_ms())
        topic = await self._begin(route, deadline)
        size = message_bytes(message.value, message.key, message.headers, message.id)
        if size > topic.max_message_bytes:
            raise MessageTooLarge(size=size, limit=topic.max_message_bytes)
        await self._make_room(size, deadline)
        with self._mutex:
            self._check_open()
            chunk = self._chunk_for(route)
            if chunk.values and chunk.measure() + size > self._batch_limits(route)[0]:
                self._seal(chunk)
                chunk = self._chunk_for(route)
            is_first = not chunk.values
            if is_first:
                chunk.opened_at, chunk.timestamp_ms = self._broker.clock.monotonic(), self._broker.clock.now_ms()
                self._open.add(chunk)
            future = AsyncSendFuture(chunk.outcome, chunk.add(message, size))
            is_full = self._seal_or_extend(chunk, topic)
        if self._options.linger_seconds == 0:
            await self._sender.pump(self._left(deadline))
            if self._sender.has_work:  # the broker asked for a pause, or a window is full
                self.wake()
        elif is_full or (is_first and (self._is_asleep or self._task is None)):
            self.wake()
        return future

    def _keeps(self, chunk: Chunk, row: int) -> bool:
        with self._mutex:
            return chunk.keeps(row)

    def _chunk_for(self, route: Route) -> Chunk:
        is_plain = route == PLAIN_ROUTE
        chunk = self._own.chunk if is_plain else self._routes.get(route)
        if chunk is None or chunk.is_sealed:
            chunk = Chunk(self.topic, route)
            if is_plain:
                self._own.chunk = chunk
            else:
                self._routes[route] = chunk
        return chunk

    def _seal_or_extend(self, chunk: Chunk, topic: TopicInfo) -> bool:
        """Seals a full chunk; lets small messages into another one without further ado."""
        max_bytes, max_messages = self._batch_limits(chunk.route)
        if chunk.size >= max_bytes or len(chunk.values) >= max_messages:
            self._seal(chunk)
            return True
        if self._options.linger_seconds and topic.max_message_bytes >= SMALL_VALUE_BYTES + SMALL_KEY_BYTES:
            chunk.open_window(max_bytes, max_messages)
        return False

    def _batch_limits(self, route: Route) -> tuple[int, int]:
        """Bytes and messages of a batch at most."""
        options = self._options
        if route.delayed:
            return min(options.batch_bytes, DELAYED_BATCH_BYTES), min(options.batch_messages, DELAYED_BATCH_MESSAGES)
        return options.batch_bytes, options.batch_messages

    def _seal(self, chunk: Chunk) -> None:
        """Hands a chunk over; under the mutex, so that chunks leave in the order they were filled."""
        chunk.seal()
        chunk.outcome.is_complete = True
        self._open.discard(chunk)
        if self._routes.get(chunk.route) is chunk:
            del self._routes[chunk.route]
        self._sender.submit(chunk)

    def _seal_due(self) -> None:
        """Seals what has lingered long enough, unless full windows hold it up anyway: then it may grow."""
        if not self._open:
            return
        is_urgent = bool(self._flushing) or self.is_closed
        if not is_urgent and not self._sender.is_clear:
            return
        latest = self._broker.clock.monotonic() - self._options.linger_seconds
        with self._mutex:
            for chunk in list(self._open):
                if is_urgent or chunk.opened_at <= latest:
                    self._seal(chunk)

    async def _send_rows(self, rows: Rows, route: Route, outcome: SendOutcome) -> None:
        topic = await self._begin(route)
        for start, stop, size in rows.cuts(*self._batch_limits(route), topic.max_message_bytes):
            await self._make_room(size)
            piece = BulkRows(rows.slice(start, stop), route, outcome, size)
            with self._mutex:
                self._check_open()
                chunk = self._chunk_for(route)
                if chunk.values:
                    self._seal(chunk)
                self._sender.submit(piece)
            await self._sender.pump()

    def _complete(self, outcome: SendOutcome) -> None:
        outcome.is_complete = True
        outcome.watchers.changed()
        if self._sender.has_work:
            self.wake()

    async def _begin(self, route: Route, deadline: float | None = None) -> TopicInfo:
        """The topic as it is known; a partition that is not known may have been added since."""
        self._broker.check_fork()
        self._check_open()
        topic = await self._sender.load_topic(timeout=self._left(deadline))
        if route.partition is not None and route.partition >= topic.partitions:
            topic = await self._sender.load_topic(max_age_seconds=0.0, timeout=self._left(deadline))
            if route.partition >= topic.partitions:
                raise PartitionNotFound(topic=self.topic, count=topic.partitions, partition=route.partition)
        return topic

    def _check_open(self) -> None:
        if self.is_closed:
            raise Closed(what=f"the producer for {self.topic!r}")

    def _left(self, deadline: float | None) -> float | None:
        return None if deadline is None else max(0.001, deadline - self._broker.clock.monotonic())

    async def _make_room(self, size: int, deadline: float | None = None) -> None:
        limit = self._options.max_buffer_bytes
        sender = self._sender
        if sender.unsettled_bytes + size <= limit:
            return
        self.wake()
        try:
            await self._wait_for(
                lambda: not sender.unsettled_bytes or sender.unsettled_bytes + size <= limit,
                min(self._options.timeout_seconds, self._left(deadline) or math.inf),
            )
        except TimeoutError:
            raise BufferFull(size=sender.unsettled_bytes, limit=limit) from None

    async def _wait_for(self, is_reached: Any, timeout: float | None) -> None:
        """Waits until progress has made a condition true; TimeoutError when it does not in time."""
        deadline = None if timeout is None else self._broker.clock.monotonic() + timeout
        while not is_reached():
            waiter: Waiter[None] = Waiter()
            self._sender.progress.add(waiter.set)
            if is_reached():
                return
            self._ensure_task()
            await waiter.wait(None if deadline is None else deadline - self._broker.clock.monotonic())

    # background

    def wake(self) -> None:
        self._ensure_task()
        if self._signal is not None:
            self._signal.set()

    def _ensure_task(self) -> None:
        if self._task is None:
            with self._mutex:
                if self._task is None:
                    self._signal = Signal()
                    self._task = Task(self._run, f"quiver-producer-{self.topic}")

    async def _run(self) -> None:
        signal = self._signal
        assert signal is not None
        was_busy = True
        while self._sender.closed_by is None:
            signal.clear()
            try:
                await self._sender.pump()
                await self._sender.check_answers()
            except QuiverError as error:
                _logger.debug("producer for %s: %s", self.topic, error)
            self._is_asleep = True  # from here on the first message of a chunk wakes this task
            wait, linger = self._wait_seconds(), self._options.linger_seconds
            is_busy, was_busy = was_busy, self._sender.unsettled_count > 0
            if is_busy and linger:
                wait = linger if wait is None else min(wait, linger)
            if wait is not None and wait <= linger:
                self._is_asleep = False  # it looks soon enough by itself
            await signal.wait(wait)
            self._is_asleep = False

    def _wait_seconds(self) -> float | None:
        waits = [wait for wait in (self._sender.seconds_until_due(), self._linger_left()) if wait is not None]
        return min(waits) if waits else None

    def _linger_left(self) -> float | None:
        with self._mutex:
            opened = [chunk.opened_at for chunk in self._open]
        if not opened or not self._sender.is_clear:
            return None
        return max(0.0, min(opened) + self._options.linger_seconds - self._broker.clock.monotonic())
