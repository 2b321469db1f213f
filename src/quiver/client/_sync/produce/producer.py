# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The producer: gathers messages into chunks, applies backpressure, and passes the chunks on."""

import logging
import math
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Unpack

import pyarrow as pa

from quiver.client._backend_sync import sleep
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client._sync.produce.send_future import BulkSendFuture, SendFuture, result_of_single
from quiver.client._sync.produce.sender import Sender
from quiver.client._sync.produce.topic_cache import TopicCache
from quiver.client.connection.fork import watch_forks
from quiver.client.produce.batches.batch import Batch
from quiver.client.produce.batches.send_outcome import SendOutcome
from quiver.client.produce.batches.unsettled import Unsettled
from quiver.client.produce.bulk import bulk_rows
from quiver.client.produce.chunk import SMALL_KEY_BYTES, SMALL_VALUE_BYTES, BulkRows
from quiver.client.produce.frame_sampler import with_parent
from quiver.client.produce.open_chunks import OpenChunks
from quiver.client.produce.options import ProducerConfig, SendOptions
from quiver.client.produce.outgoing import check_options, deliver_at_ms, outgoing, route_of
from quiver.client.produce.payload import key_bytes, message_bytes, value_bytes
from quiver.client.produce.published import Published
from quiver.client.produce.route import Route
from quiver.client.produce.rows import Rows
from quiver.model.errors import BufferFull, Closed, MessageTooLarge, PartitionNotFound, QuiverError, RequestTimeout
from quiver.model.times import Duration, wait_seconds
from quiver.protocol.messages import TopicInfo
from quiver.records.single import is_single

_logger = logging.getLogger(__name__)
_GIVE_UP_SECONDS = 5.0


class Producer:
    """Sends messages to one topic: batched, in order, each once.

    Use it in a `with` block, which ends with `flush` and `close`. In the synchronous SDK threads may share one;
    messages of each thread stay in order.
    """

    def __init__(self, broker: ReconnectingConnection, topic: str, config: ProducerConfig) -> None:
        self.topic = topic
        self._broker = broker
        self._config = config
        self._context = broker.tracing if broker.tracing is not None and broker.tracing.has_context else None
        """Puts messages into the trace that their sender is in."""
        self._unsettled = Unsettled()
        self._chunks = OpenChunks(topic, config, self._unsettled, broker.clock)
        self._own = self._chunks.own
        self._known_topic = TopicCache(broker, topic)
        self._sender = Sender(broker, self._known_topic, config, self._chunks, self._unsettled)
        watch_forks(self)

    @property
    def is_closed(self) -> bool:
        return self._chunks.is_closed

    def __enter__(self) -> "Producer":
        self._known_topic.get()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(timeout=_GIVE_UP_SECONDS)
        except QuiverError as problem:
            _logger.warning("messages to %s were not delivered: %s", self.topic, problem)

    def send(self, value: Any, key: bytes | str | None = None, **options: Unpack[SendOptions]) -> SendFuture:
        """Takes one message, to be sent with others; the future returns its offset.

        `value` is bytes, text or anything that becomes JSON; None is a tombstone. Waits while the buffer is full,
        then raises BufferFull. Options: headers, timestamp, partition, priority, ttl, delay, deliver_at, id.
        """
        # The lines below run a million times per second: see Chunk for why they need no lock.
        if self._context is not None:
            options = self._context.added_to(options)
        if not options and type(value) is bytes and len(value) <= SMALL_VALUE_BYTES:
            chunk = self._own.chunk
            values, keys = chunk.values, chunk.keys
            row = len(values)
            if key is None:
                if row < chunk.plain_until:
                    values.append(value)
                    if row < chunk.plain_until or self._chunks.keeps(chunk, row):
                        return SendFuture(chunk.outcome, row)
            elif keys is not None and row < chunk.keyed_until:
                if type(key) is str:
                    key = key.encode()
                if type(key) is bytes and len(key) <= SMALL_KEY_BYTES:
                    keys.append(key)
                    values.append(value)
                    if row < chunk.keyed_until or self._chunks.keeps(chunk, row):
                        return SendFuture(chunk.outcome, row)
        return self._send_any(value, key, options)

    def send_many(
        self,
        values: Iterable[Any],
        keys: Iterable[bytes | str | None] | None = None,
        ids: Iterable[bytes | str | None] | None = None,
        **options: Unpack[SendOptions],
    ) -> BulkSendFuture:
        """Takes many messages at once, much faster than one by one; the options apply to all of them."""
        check_options(options)
        if self._context is not None:
            options = self._context.added_to(options)
        route, outcome = route_of(options), SendOutcome(self.topic)
        now_ms = self._broker.clock.now_ms()
        try:
            for rows in bulk_rows(values, keys, options, now_ms, ids):
                self._send_rows(rows, route, outcome)
        finally:
            self._complete(outcome)
        return BulkSendFuture(outcome)

    def send_arrow(self, data: pa.Table | pa.RecordBatch, **options: Unpack[SendOptions]) -> BulkSendFuture:
        """Takes the rows of an Arrow table: columns `value`, and optionally `key`, `timestamp`, `headers`, `id`.

        Options: partition, priority, delay, deliver_at.
        """
        check_options(options)
        route, outcome = route_of(options), SendOutcome(self.topic)
        now_ms = self._broker.clock.now_ms()
        due_ms = deliver_at_ms(options, now_ms)
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        parent = None if self._context is None else self._context.current()
        try:
            for batch in batches:
                if batch.num_rows:
                    rows = Rows.from_arrow(batch, now_ms)
                    if parent is not None:
                        rows = with_parent(rows, parent)
                    self._send_rows(rows if due_ms is None else rows.delayed_until(due_ms), route, outcome)
        finally:
            self._complete(outcome)
        return BulkSendFuture(outcome)

    def flush(self, timeout: Duration | None = None) -> None:
        """Returns when every message taken so far is stored; raises the first failure that no future has raised."""
        self._broker.check_fork()
        seconds = wait_seconds(timeout)
        if not self._is_settled():
            self._chunks.flushing += 1
            try:
                self._sender.pump()
                self._sender.wait_for(self._is_settled, seconds)
            except TimeoutError:
                raise RequestTimeout(seconds=seconds) from None
            finally:
                self._chunks.flushing -= 1
        self._unsettled.raise_unseen()

    def _is_settled(self) -> bool:
        return not self._chunks.has_open and self._unsettled.count == 0

    def close(self, timeout: Duration | None = None) -> None:
        """Flushes and closes; messages that are not stored within `timeout` fail. Safe to call again.

        Does nothing in a forked child: the messages are the parent's.
        """
        if self.is_closed or self._broker.is_forked:
            self._chunks.is_closed = True
            return
        self._chunks.close()
        try:
            self.flush(timeout)
        finally:
            self._sender.close(Closed(what=f"the producer for {self.topic!r}"))
            self._sender.join()

    def after_fork(self, parent_pid: int) -> None:
        self._chunks.after_fork()
        self._unsettled.after_fork()
        self._sender.after_fork()

    # for transactions: between two of them nothing is in flight, each has ended with `flush` or `give_up`

    def begin_transaction(self, identity: tuple[int, int]) -> None:
        """Messages from now on belong to the transaction of this producer id and epoch."""
        self._sender.begin_transaction(identity)

    def push(self) -> None:
        """Sends everything that was taken, without waiting for responses."""
        if self._is_settled():
            return
        self._chunks.flushing += 1
        try:
            self._sender.pump()
        finally:
            self._chunks.flushing -= 1

    def give_up(self, error: QuiverError) -> None:
        """Fails everything that was taken. What was not sent stays unsent; responses to the rest are ignored."""
        self._chunks.seal_all()
        self._sender.give_up(error)

    # gathering

    def publish(
        self, value: Any, key: Any, options: SendOptions, seconds: float | None, verdict_seconds: float
    ) -> Published:
        """Sends one message at once, and waits for its outcome: for `seconds`, whatever has to be found out first,
        or else for `verdict_seconds` after it was sent. RequestTimeout."""
        if self._context is not None:
            options = self._context.added_to(options)
        clock = self._broker.clock
        deadline = None if seconds is None else clock.monotonic() + seconds
        batch = None if options else self._send_single(value, key)
        future = None if batch else self._send_any(value, key, options, deadline, is_waited_for=True)
        left = verdict_seconds if deadline is None else deadline - clock.monotonic()
        try:
            if batch is not None:
                return result_of_single(batch, left, self._known_topic.owner(batch.partition))
            assert future is not None
            return future.result(left, self._broker)
        except RequestTimeout:
            self._sender.wake()  # it is sent all the same
            raise RequestTimeout(seconds=verdict_seconds if seconds is None else seconds) from None

    def _send_single(self, value: Any, key: Any) -> Batch | None:
        """Sends a message by itself; None when that is not possible now, or not with this message."""
        content, word = value_bytes(value), key_bytes(key)
        if content is None or not is_single(content, word):
            return None
        return self._sender.send_single(content, word)

    def _send_any(
        self,
        value: Any,
        key: Any,
        options: SendOptions,
        deadline: float | None = None,
        *,
        is_waited_for: bool = False,
    ) -> SendFuture:
        message, route = outgoing(value, key, options, self._broker.clock.now_ms())
        topic = self._begin(route, deadline)
        size = message_bytes(message.value, message.key, message.headers, message.id)
        if size > topic.max_message_bytes:
            raise MessageTooLarge(size=size, limit=topic.max_message_bytes)
        self._make_room(size, deadline)
        added = self._chunks.add(message, route, size, topic.max_message_bytes)
        sender = self._sender
        if self._config.linger_seconds == 0:
            sender.pump(self._left(deadline), is_waited_for=is_waited_for)
            if sender.has_work:  # the broker asked for a pause, or a window is full
                sender.wake()
        elif added.is_full or (added.is_first and sender.needs_waking):
            sender.wake()
        return SendFuture(added.chunk.outcome, added.row)

    def _send_rows(self, rows: Rows, route: Route, outcome: SendOutcome) -> None:
        topic = self._begin(route)
        config, is_hashed = self._config, route.partition is None and rows.has_hashes
        limits = (
            config.gathering_limits(topic.partitions) if is_hashed else config.batch_limits(delayed=route.delayed)
        )
        for start, stop, size in rows.cuts(limits, topic.max_message_bytes):
            self._make_room(size)
            self._chunks.add_rows(BulkRows(rows.slice(start, stop), route, outcome, size))
            if self._sender.is_gathering:
                sleep(0)
            else:
                self._sender.pump()

    def _complete(self, outcome: SendOutcome) -> None:
        outcome.is_complete = True
        outcome.watchers.changed()
        if self._sender.has_work:
            self._sender.wake()

    def _begin(self, route: Route, deadline: float | None = None) -> TopicInfo:
        """The topic as it is cached; fetched again for an unknown partition, which may have been added since."""
        self._broker.check_fork()
        self._chunks.check_open()
        topic = self._known_topic.get(timeout=self._left(deadline))
        if route.partition is not None and route.partition >= topic.partitions:
            topic = self._known_topic.get(max_age_seconds=0.0, timeout=self._left(deadline))
            if route.partition >= topic.partitions:
                raise PartitionNotFound(topic=self.topic, count=topic.partitions, partition=route.partition)
        return topic

    def _left(self, deadline: float | None) -> float | None:
        return None if deadline is None else max(0.001, deadline - self._broker.clock.monotonic())

    def _make_room(self, size: int, deadline: float | None = None) -> None:
        """Waits while the buffer is full. Raises BufferFull."""
        limit = self._config.max_buffer_bytes
        unsettled = self._unsettled
        if unsettled.size_bytes + size <= limit:
            return
        self._sender.wake()
        try:
            self._sender.wait_for(
                lambda: not unsettled.size_bytes or unsettled.size_bytes + size <= limit,
                min(self._config.timeout_seconds, self._left(deadline) or math.inf),
            )
        except TimeoutError:
            raise BufferFull(size=unsettled.size_bytes, limit=limit) from None
