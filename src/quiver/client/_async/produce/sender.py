"""The sending half of a producer: routes rows to partitions, keeps batches in flight, retries, settles.

`pump` sends what may be sent. Callers of `send_many`, `publish` and `flush` call it, and the background task does for
lingering chunks, retries and freed windows. One pumps at a time. Responses are handled where they arrive, and only
change state.
"""

import logging
import math
import threading
from collections.abc import Callable
from functools import partial

from quiver.client._async.connection.connection import AsyncConnection, Outbound
from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client._async.produce.repair import begin_epochs, new_identity, reroute
from quiver.client._async.produce.topic_cache import AsyncTopicCache
from quiver.client._backend_async import Lock, Signal, Task, Waiter, acquire
from quiver.client.produce.batches.batch import Batch
from quiver.client.produce.batches.batch_router import BatchRouter
from quiver.client.produce.batches.in_flight import NO_IDENTITY, InFlightBatch, InFlightBatches
from quiver.client.produce.batches.routing import Router
from quiver.client.produce.batches.send_outcome import SendOutcome
from quiver.client.produce.batches.send_queue import PartitionSendQueue
from quiver.client.produce.batches.unsettled import Unsettled
from quiver.client.produce.open_chunks import OpenChunks
from quiver.client.produce.options import IN_FLIGHT_PER_PARTITION, ProducerConfig
from quiver.model.errors import (
    ConnectionLost,
    OutOfSequence,
    QuiverError,
    RequestTimeout,
    StalePartitionCount,
    TopicNotFound,
    UnknownProducer,
    error_from_wire,
)
from quiver.protocol.messages import (
    ACKS_NONE,
    Failure,
    InitProducer,
    Produce,
    Produced,
    Response,
    TopicInfo,
)
from quiver.structures.reused_buffers import ReusedBuffers

_logger = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_TOPIC_SECONDS = 60.0
"""After this time the topic is fetched again, so that messages without a key use partitions that were added."""
_UNKNOWN_OFFSET = -1
_REPAIRED = (OutOfSequence, StalePartitionCount, TopicNotFound, UnknownProducer)
"""What the producer repairs by itself, immediately."""
_SLOW_SECONDS = 1.0
"""After this time without a response a caller with a timeout no longer sends by itself."""


class AsyncSender:
    """Sends what `chunks` has ready, and seals what has lingered there long enough."""

    def __init__(
        self,
        broker: AsyncReconnectingConnection,
        topic: AsyncTopicCache,
        config: ProducerConfig,
        chunks: OpenChunks,
        unsettled: Unsettled,
    ) -> None:
        self.closed_by: QuiverError | None = None
        self._broker = broker
        self._topic = topic
        self._config = config
        self._chunks = chunks
        self._unsettled = unsettled
        self._mutex = threading.Lock()
        self._pumping = Lock()
        self._buffers = ReusedBuffers(IN_FLIGHT_PER_PARTITION + 4)  # of whoever pumps
        self._in_flight = InFlightBatches(
            broker.new_backoff, idempotent=config.idempotent, is_transactional=config.is_transactional
        )
        router = Router(topic.name, int(broker.randomness.jitter() * 1_000_000))
        self._router = BatchRouter(router, self._in_flight, unsettled, config)
        self._sampler = None if broker.tracing is None else broker.tracing.new_sampler()  # of whoever pumps
        self._identity = NO_IDENTITY
        self._paused_until = 0.0
        self._backoff = broker.new_backoff()
        self._signal: Signal | None = None
        self._task: Task | None = None
        self._is_asleep = False

    @property
    def is_clear(self) -> bool:
        """Nothing waits that only a full window holds back: the time to send what lingers."""
        return not self._chunks.ready and self._in_flight.is_clear

    @property
    def has_work(self) -> bool:
        return bool(self._chunks.ready) or self._in_flight.has_work

    @property
    def is_gathering(self) -> bool:
        """So much is in flight that rows are not sent yet; the next responses trigger it."""
        return self._in_flight.room <= 0

    async def pump(self, timeout: float | None = None, *, is_waited_for: bool = False) -> None:
        """Sends everything that may go now. Failures end up in futures and retries, not with the caller.

        After `timeout` seconds it is left to the background task. `is_waited_for`: see `AsyncConnection.send`.
        """
        now = self._broker.clock.monotonic()
        deadline = math.inf if timeout is None else now + timeout
        if timeout is not None and self._in_flight.is_unanswered_since(now - _SLOW_SECONDS):
            self.wake()  # sending may block: the other side has stopped reading
            return
        if not await acquire(self._pumping, timeout):
            self.wake()
            return
        try:
            await self._pump(deadline, is_waited_for)
        finally:
            self._pumping.release()

    async def send_single(self, value: bytes, key: bytes | None) -> Batch | None:
        """Sends a small message in a frame of its own, for a caller who waits for its outcome.

        None: something else is to be sent or to be found out first, so it has to go the way of all others.
        """
        if self._pumping.locked() or not await acquire(self._pumping, 0.0):
            return None
        try:
            now, topic = self._broker.clock.monotonic(), self._topic.known(_TOPIC_SECONDS)
            size = len(value) + (0 if key is None else len(key))
            if topic is None or not self._takes_singles(now, size, topic):
                return None
            outcome, last_try = SendOutcome(topic.name), now + self._config.delivery_seconds
            batch = self._router.single(outcome, key, size, topic.partitions, last_try)
            connection = self._topic.owner(batch.partition).idle_connection
            queue = None if connection is None else self._in_flight.begin_single(batch, now)
            if connection is None or queue is None:
                return None
            self._unsettled.add(size, 1)
            batch.build_single(value, key, self._broker.clock.now_ms(), queue.identity)
            await self._send_batches([(queue, batch)], topic, connection, is_waited_for=True)
            return batch
        finally:
            self._pumping.release()

    def _takes_singles(self, now: float, size: int, topic: TopicInfo) -> bool:
        chunks = self._chunks
        return (
            size <= topic.max_message_bytes
            and self._unsettled.size_bytes + size <= self._config.max_buffer_bytes
            and self.closed_by is None
            and not (chunks.is_closed or chunks.has_open or chunks.ready)
            and not self._in_flight.is_unanswered_since(now - _SLOW_SECONDS)
            and (self._sampler is None or self._sampler.pass_one())
        )

    async def _pump(self, deadline: float, is_waited_for: bool) -> None:
        chunks = self._chunks
        while self.closed_by is None:
            if chunks.has_open and (chunks.is_urgent or self.is_clear):
                chunks.seal_due()
            now = self._broker.clock.monotonic()
            for batch in self._in_flight.expire(now):
                late = RequestTimeout(seconds=self._config.delivery_seconds)
                self._unsettled.settle(batch, error=batch.last_error or late)
            if not self.has_work or now < self._paused_until:
                return
            try:
                topic = await self._prepare(deadline)
            except QuiverError as error:
                if error.retryable:
                    self._pause(error)
                else:
                    self._fail_everything(error)
                return
            batches = self._in_flight.take(now, self._identity)
            if not batches:
                return
            await self._send(batches, topic, deadline, is_waited_for)

    async def wait_for(self, is_reached: Callable[[], bool], timeout: float | None) -> None:
        """Waits until progress has made a condition true. Raises TimeoutError if it does not in time."""
        clock = self._broker.clock
        deadline = None if timeout is None else clock.monotonic() + timeout
        while not is_reached():
            waiter: Waiter[None] = Waiter()
            end = self._unsettled.progress.add_until(is_reached, waiter.set)
            try:
                if is_reached():
                    return
                self._ensure_task()
                await waiter.wait(None if deadline is None else deadline - clock.monotonic())
            finally:
                end()

    def close(self, error: QuiverError) -> None:
        """Fails everything that is not settled."""
        self.closed_by = error
        self._fail_everything(error)

    async def join(self) -> None:
        """After `close`: returns when the background task has ended."""
        if self._task is not None and self._signal is not None:
            self._signal.set()
            await self._task.join()

    def begin_transaction(self, identity: tuple[int, int]) -> None:
        """Messages from now on are sent with this identity, with sequences from 0. Nothing may be in flight."""
        self._identity = identity
        self._in_flight.begin_transaction()
        self._unsettled.forget_failures()

    async def give_up(self, error: QuiverError) -> None:
        """Fails everything that is not settled, including what was sent: its responses are ignored."""
        async with self._pumping:
            self._fail_everything(error, in_flight_too=True)

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._in_flight.after_fork()

    # background

    @property
    def needs_waking(self) -> bool:
        """Whether the background task does not look by itself soon enough."""
        return self._is_asleep or self._task is None

    def wake(self) -> None:
        self._ensure_task()
        if self._signal is not None:
            self._signal.set()

    def _ensure_task(self) -> None:
        if self._task is None:
            with self._mutex:
                if self._task is None:
                    self._signal = Signal()
                    self._task = Task(self._run, f"quiver-producer-{self._topic.name}")

    async def _run(self) -> None:
        signal, was_busy, count = self._signal, True, 0
        assert signal is not None
        while self.closed_by is None:
            signal.clear()
            try:
                await self.pump()
                await self._check_answers()
            except QuiverError as error:
                _logger.debug("producer for %s: %s", self._topic.name, error)
            self._is_asleep = True  # from here on the first message of a chunk wakes this task
            wait, linger = self._wait_seconds(), self._config.linger_seconds
            is_busy, was_busy, count = was_busy, self._unsettled.count not in (0, count), self._unsettled.count
            if is_busy and linger:
                wait = linger if wait is None else min(wait, linger)
            if wait is not None and wait <= linger:
                self._is_asleep = False  # it looks soon enough by itself
            await signal.wait(wait)
            self._is_asleep = False

    def _wait_seconds(self) -> float | None:
        lingers = self._chunks.linger_left() if self._chunks.has_open and self.is_clear else None
        waits = [wait for wait in (self._seconds_until_due(), lingers) if wait is not None]
        return min(waits) if waits else None

    def _seconds_until_due(self) -> float | None:
        """When to pump again without being woken; None when there is nothing to wait for."""
        if self._unsettled.count == 0:
            return None
        now = self._broker.clock.monotonic()
        due = now + _TICK_SECONDS
        retry = self._in_flight.next_retry(now)
        if retry is not None:
            due = min(due, retry)
        if self.has_work and self._paused_until > now:
            due = min(due, self._paused_until)
        return max(0.0, due - now)

    async def _check_answers(self) -> None:
        """Drops a connection without a response for too long; what was in flight is then sent again."""
        seconds, oldest = self._config.request_seconds, self._in_flight.oldest
        if oldest is None or oldest.sent_at >= self._broker.clock.monotonic() - seconds:
            return
        connection = await self._topic.owner(oldest.partition).connection()
        connection.fail(ConnectionLost(address=self._broker.address, problem=f"no response for {seconds:g} s"))

    # routing

    def _left(self, deadline: float) -> float:
        return max(0.001, min(self._config.request_seconds, deadline - self._broker.clock.monotonic()))

    async def _prepare(self, deadline: float) -> TopicInfo:
        """Makes batches of what is ready, and gets the identities that they are sent with."""
        topic = await self._topic.get(_TOPIC_SECONDS, self._left(deadline))
        room, together_bytes = self._in_flight.room, self._config.gathering_limits(topic.partitions).size_bytes
        while self._chunks.ready and room > 0:
            last_try = self._broker.clock.monotonic() + self._config.delivery_seconds
            room -= self._router.place(self._chunks.take_ready(together_bytes), topic.partitions, last_try)
        if self._in_flight.can_be_rerouted:
            topic = await reroute(self._topic, topic, self._in_flight, self._router, self._left(deadline))
        if self._config.idempotent and not self._config.is_transactional:
            if self._identity == NO_IDENTITY:
                self._identity = await new_identity(self._broker, InitProducer(), self._left(deadline))
            await begin_epochs(self._broker, self._in_flight, self._left(deadline))
        return topic

    # sending

    async def _send(
        self, batches: list[InFlightBatch], topic: TopicInfo, deadline: float, is_waited_for: bool
    ) -> None:
        for owner, owned in self._topic.by_owner(batches).items():
            try:
                connection = await owner.connection(self._left(deadline))
            except QuiverError as error:
                for queue, batch in owned:
                    self._refused(queue, batch, error, was_sent=False)
                continue
            is_waited_for = is_waited_for and owner is self._broker
            await self._send_batches(owned, topic, connection, is_waited_for=is_waited_for)

    async def _send_batches(
        self, batches: list[InFlightBatch], topic: TopicInfo, connection: AsyncConnection, *, is_waited_for: bool
    ) -> None:
        config, outbound, is_answered = self._config, list[Outbound](), self._config.acks != ACKS_NONE
        traced = None if self._sampler is None else self._sampler.within(topic.max_message_bytes)
        for queue, batch in batches:
            try:
                frame = batch.build(queue.identity, config, self._buffers, traced)
            except QuiverError as error:
                self._refused(queue, batch, error, was_sent=False)
                continue
            # What may be stored already is not hashed again: it could be stored twice.
            count = topic.partitions if batch.hashed and not batch.is_uncertain else 0
            request = Produce(topic.id, batch.partition, count, config.acks)
            outbound.append(Outbound(request, frame, partial(self._answered, queue, batch) if is_answered else None))
        try:
            await connection.send(outbound, is_waited_for=is_waited_for)
        except BaseException:
            interrupted = ConnectionLost(address=self._broker.address, problem="sending was interrupted")
            for queue, batch in batches:  # those that were answered by the end of the connection stay as they are
                self._refused(queue, batch, interrupted)
            self.wake()
            raise
        if not is_answered:
            lost = ConnectionLost(address=self._broker.address, problem="it broke while messages were sent")
            answer = Produced(_UNKNOWN_OFFSET, 0) if connection.is_open else lost
            for queue, batch in batches:
                self._answered(queue, batch, answer)

    def _answered(
        self, queue: PartitionSendQueue, batch: Batch, answer: Response | QuiverError, _: memoryview | None = None
    ) -> None:
        if batch.is_settled:
            return
        if isinstance(answer, Produced):
            if self._backoff.failures:
                self._backoff.reset()
            if self._in_flight.acked(queue, batch):
                batch.note_stored(answer.duplicates, is_buffered=answer.buffered)
                self._unsettled.settle(batch, base_offset=answer.base_offset)
        elif isinstance(answer, Failure):
            self._refused(queue, batch, error_from_wire(answer.code, answer.message, answer.retryable))
        else:
            self._refused(queue, batch, answer if isinstance(answer, QuiverError) else unexpected(answer))
        if self._in_flight.has_work or (self._chunks.ready and not self.is_gathering):
            self.wake()

    def _refused(self, queue: PartitionSendQueue, batch: Batch, error: QuiverError, *, was_sent: bool = True) -> None:
        now = self._broker.clock.monotonic()
        is_final = self._in_flight.refused(queue, batch, error, now=now, was_sent=was_sent)
        if is_final:
            self._unsettled.settle(batch, error=error)
            if self._config.is_transactional:  # nothing of the transaction can count any more
                for other in self._in_flight.take_all(in_flight_too=False):
                    self._unsettled.settle(other, error=error)
        elif self.closed_by is not None:
            self._fail_everything(self.closed_by)
        elif error.retryable and not isinstance(error, _REPAIRED):
            wait = (self._in_flight.next_retry(now) or now) - now
            self._topic.note_retry(error, queue.backoff.failures, max(0.0, wait))

    def _pause(self, error: QuiverError) -> None:
        """The broker cannot be reached: tries again a little later."""
        wait = self._backoff.next_seconds()
        self._paused_until = self._broker.clock.monotonic() + wait
        self._topic.note_retry(error, self._backoff.failures, wait)
        self._in_flight.note_error(error)
        self.wake()

    def _fail_everything(self, error: QuiverError, *, in_flight_too: bool = False) -> None:
        for pending in self._chunks.drain_ready():
            self._unsettled.fail_rows(pending, error)
        for batch in self._in_flight.take_all(in_flight_too=in_flight_too or self.closed_by is not None):
            self._unsettled.settle(batch, error=error)
