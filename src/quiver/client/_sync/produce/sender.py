# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The sending half of a producer: routes rows to partitions, keeps batches in flight, retries, settles.

Whoever has a reason pumps: the caller of `send_many`, `publish` and `flush`, and the background task for lingering
chunks, retries and freed windows. One pumps at a time. Answers are taken where they arrive, and only change state.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from quiver.client._backend_sync import Lock, acquire
from quiver.client._sync.connection.connection import Outbound
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client.produce.chunk import PendingRows
from quiver.client.produce.in_flight import NO_IDENTITY, InFlightBatch, InFlightBatches
from quiver.client.produce.options import ProducerConfig
from quiver.client.produce.routing import Router
from quiver.client.produce.send_outcome import Batch, Placement, SendOutcome, batches_of, fresh
from quiver.client.produce.send_queue import PartitionSendQueue
from quiver.client.produce.watchers import Watchers
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
    Answer,
    Failure,
    InitProducer,
    Produce,
    Produced,
    ProducerIdentity,
    TopicInfo,
)

_FAILURES_KEPT = 100
_TICK_SECONDS = 1.0
_TOPIC_SECONDS = 60.0
"""After this time the topic is looked at again, so that messages without a key use partitions that were added."""
_UNKNOWN_OFFSET = -1
_REPAIRED = (OutOfSequence, StalePartitionCount, TopicNotFound, UnknownProducer)
"""What the producer puts right by itself, at once."""
_SLOW_SECONDS = 1.0
"""After this time without an answer a caller with a timeout no longer sends by himself."""


class Sender:
    """Belongs to one producer. `gather` seals what is due, `wake` calls the background task."""

    def __init__(
        self,
        broker: ReconnectingConnection,
        topic: str,
        options: ProducerConfig,
        *,
        gather: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.topic: TopicInfo | None = None
        self.unsettled_bytes = 0
        self.unsettled_count = 0
        self.progress = Watchers()
        """Told whenever something is settled."""
        self.closed_by: QuiverError | None = None
        self._broker = broker
        self._name = topic
        self._options = options
        self._gather = gather
        self._wake = wake
        self._mutex = threading.Lock()
        self._pumping = Lock()
        self._ready: deque[PendingRows] = deque()
        self._in_flight = InFlightBatches(
            broker.new_backoff, idempotent=options.idempotent, is_transactional=options.is_transactional
        )
        self._router = Router(topic, int(broker.randomness.jitter() * 1_000_000))
        self._identity = NO_IDENTITY
        self._paused_until = 0.0
        self._backoff = broker.new_backoff()
        self._topic_loaded_at = 0.0
        self._failed: list[Batch | SendOutcome] = []

    def submit(self, pending: PendingRows) -> None:
        """Takes rows over; they are sent by the next pump."""
        self._count(pending.size, 1)
        self._ready.append(pending)

    @property
    def is_clear(self) -> bool:
        """Nothing waits that only a full window holds back: the time to send what lingers."""
        return not self._ready and self._in_flight.is_clear

    @property
    def has_work(self) -> bool:
        return bool(self._ready) or self._in_flight.has_work

    def load_topic(self, max_age_seconds: float = math.inf, timeout: float | None = None) -> TopicInfo:
        """What is known of the topic, asked for again when it is older than that."""
        now = self._broker.clock.monotonic()
        if self.topic is None or now - self._topic_loaded_at > max_age_seconds:
            self._topic_loaded_at = now
            topic = self._broker.topic(self._name, timeout)
            # Another id is another topic: what is on its way finds that out by itself, see _reroute.
            if self.topic is None or topic.id == self.topic.id:
                self.topic = topic
        return self.topic

    def pump(self, timeout: float | None = None) -> None:
        """Sends everything that may go now. Troubles end up in futures and retries, not with the caller.

        After `timeout` seconds it is left to the background task.
        """
        now = self._broker.clock.monotonic()
        deadline = math.inf if timeout is None else now + timeout
        if timeout is not None and self._in_flight.is_unanswered_since(now - _SLOW_SECONDS):
            self._wake()  # sending may block: the other side has stopped reading
            return
        if not acquire(self._pumping, timeout):
            self._wake()
            return
        try:
            self._pump(deadline)
        finally:
            self._pumping.release()

    def _pump(self, deadline: float) -> None:
        while self.closed_by is None:
            self._gather()
            now = self._broker.clock.monotonic()
            for batch in self._in_flight.expire(now):
                late = RequestTimeout(seconds=self._options.delivery_seconds)
                self._settle(batch, error=batch.last_error or late)
            if not self.has_work or now < self._paused_until:
                return
            try:
                self._prepare(deadline)
            except QuiverError as error:
                if error.retryable:
                    self._pause(error)
                else:
                    self._fail_everything(error)
                return
            batches = self._in_flight.take(now, self._identity)
            if not batches:
                return
            self._send(batches, deadline)

    def seconds_until_due(self) -> float | None:
        """When to pump again without being woken; None when there is nothing to wait for."""
        if self.unsettled_count == 0:
            return None
        now = self._broker.clock.monotonic()
        due = now + _TICK_SECONDS
        retry = self._in_flight.next_retry(now)
        if retry is not None:
            due = min(due, retry)
        if self.has_work and self._paused_until > now:
            due = min(due, self._paused_until)
        return max(0.0, due - now)

    def raise_unseen(self) -> None:
        """Raises the first failure that no future has told anybody about."""
        with self._mutex:
            failed, self._failed = self._failed, []
        for failure in failed:
            if not failure.error_seen and failure.error is not None:
                failure.error_seen = True
                raise fresh(failure.error)

    def check_answers(self) -> None:
        """Drops a connection that has not answered for too long; what was in flight is then sent again."""
        seconds = self._options.request_seconds
        if self._in_flight.is_unanswered_since(self._broker.clock.monotonic() - seconds):
            connection = self._broker.connection()
            connection.fail(ConnectionLost(address=self._broker.address, problem=f"no answer for {seconds:g} s"))

    def close(self, error: QuiverError) -> None:
        """Fails whatever is not settled."""
        self.closed_by = error
        self._fail_everything(error)

    def begin_transaction(self, identity: tuple[int, int]) -> None:
        """What comes now is sent under this identity, with sequences from 0. Nothing is on its way."""
        self._identity = identity
        self._in_flight.begin_transaction()
        with self._mutex:
            self._failed = []

    def give_up(self, error: QuiverError) -> None:
        """Fails whatever is not settled, also what was sent: nobody waits for its answer."""
        with self._pumping:
            self._fail_everything(error, in_flight_too=True)

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._in_flight.after_fork()

    # routing

    def _left(self, deadline: float) -> float:
        """How long a request may take, so as not to go beyond the deadline."""
        return max(0.001, min(self._options.request_seconds, deadline - self._broker.clock.monotonic()))

    def _prepare(self, deadline: float) -> None:
        topic = self.load_topic(_TOPIC_SECONDS, self._left(deadline))
        while self._ready:
            self._place(self._ready.popleft(), topic)
        if self._in_flight.can_be_rerouted:
            self._reroute(topic, deadline)
        if self._options.idempotent and not self._options.is_transactional:
            if self._identity == NO_IDENTITY:
                self._identity = self._new_identity(InitProducer(), deadline)
            for queue in self._in_flight.wanting_epoch():
                self._in_flight.begin_epoch(queue, self._new_identity(InitProducer(*queue.identity), deadline))

    def _new_identity(self, request: InitProducer, deadline: float) -> tuple[int, int]:
        connection = self._broker.connection(self._left(deadline))
        answer = (connection.call(request, self._left(deadline))).answer
        if isinstance(answer, ProducerIdentity):
            return answer.producer_id, answer.epoch
        if isinstance(answer, Failure):
            raise error_from_wire(answer.code, answer.message, answer.retryable)
        raise unexpected(answer)

    def _place(self, pending: PendingRows, topic: TopicInfo) -> None:
        outcome, route = pending.outcome, pending.route
        try:
            routed = self._router.route(pending.rows(), route.partition, topic.partitions, self._in_flight.is_failing)
        except QuiverError as error:
            self._abandon(pending, error)
            return
        deadline = self._broker.clock.monotonic() + self._options.delivery_seconds
        batches = batches_of(routed, outcome, route.partition, route.priority, pending.size, deadline, route.delayed)
        outcome.place(Placement(batches, routed.order))
        self._enqueue(batches)

    def _reroute(self, known: TopicInfo, deadline: float) -> None:
        """Routes anew what was refused because the topic has changed, and what waits and was hashed like it."""
        missing: TopicNotFound | None = None
        topic = known
        try:
            topic = self.topic = self._broker.topic(self._name, self._left(deadline))
        except TopicNotFound as error:
            missing = error
        is_new = topic.id != known.id
        for batch in self._in_flight.withdraw(is_new_topic=is_new or missing is not None):
            if missing is not None:
                self._settle(batch, error=missing)
            elif isinstance(batch.last_error, TopicNotFound) and not is_new:
                self._settle(batch, error=batch.last_error)
            else:
                self._place_again(batch, topic)

    def _place_again(self, batch: Batch, topic: TopicInfo) -> None:
        rows = batch.open_rows()
        try:
            routed = self._router.route(rows, batch.chosen, topic.partitions, self._in_flight.is_failing)
        except QuiverError as error:
            self._settle(batch, error=error)
            return
        batches = batches_of(
            routed, batch.outcome, batch.chosen, batch.priority, batch.size, batch.deadline, batch.is_delayed
        )
        batch.placement = Placement(batches, routed.order)
        batch.release()
        self._enqueue(batches)

    def _enqueue(self, batches: Sequence[Batch]) -> None:
        """Adds the batches of rows, or of a batch, that were counted as one."""
        self._count(0, len(batches) - 1)
        self._in_flight.enqueue(batches)

    # sending

    def _send(self, batches: list[InFlightBatch], deadline: float) -> None:
        assert self.topic is not None
        try:
            connection = self._broker.connection(self._left(deadline))
        except QuiverError as error:
            for queue, batch in batches:
                self._refused(queue, batch, error, was_sent=False)
            return
        is_answered = self._options.acks != ACKS_NONE
        outbound: list[Outbound] = []
        for queue, batch in batches:
            try:
                frame = batch.build(
                    queue.identity, self._options.compression, transactional=self._options.is_transactional
                )
            except QuiverError as error:
                self._refused(queue, batch, error, was_sent=False)
                continue
            # What may be stored already is not hashed again: it would be stored twice.
            count = self.topic.partitions if batch.hashed and not batch.is_uncertain else 0
            request = Produce(self.topic.id, batch.partition, count, self._options.acks)
            outbound.append(Outbound(request, frame, partial(self._answered, queue, batch) if is_answered else None))
        connection.send(outbound)
        if not is_answered:
            lost = ConnectionLost(address=self._broker.address, problem="it broke while messages were sent")
            answer = Produced(_UNKNOWN_OFFSET, 0) if connection.is_open else lost
            for queue, batch in batches:
                self._answered(queue, batch, answer)

    def _answered(
        self, queue: PartitionSendQueue, batch: Batch, answer: Answer | QuiverError, _: memoryview | None = None
    ) -> None:
        if batch.is_settled:
            return
        if isinstance(answer, Produced):
            if self._backoff.failures:
                self._backoff.reset()
            if self._in_flight.acked(queue, batch):
                if answer.duplicates:
                    batch.note_duplicates(answer.duplicates)
                self._settle(batch, base_offset=answer.base_offset)
        elif isinstance(answer, Failure):
            self._refused(queue, batch, error_from_wire(answer.code, answer.message, answer.retryable))
        else:
            self._refused(queue, batch, answer if isinstance(answer, QuiverError) else unexpected(answer))
        if self.has_work:
            self._wake()

    def _refused(self, queue: PartitionSendQueue, batch: Batch, error: QuiverError, *, was_sent: bool = True) -> None:
        now = self._broker.clock.monotonic()
        is_final = self._in_flight.refused(queue, batch, error, now=now, was_sent=was_sent)
        if is_final:
            self._settle(batch, error=error)
            if self._options.is_transactional:  # nothing of the transaction can count any more
                for other in self._in_flight.take_all(in_flight_too=False):
                    self._settle(other, error=error)
        elif self.closed_by is not None:
            self._fail_everything(self.closed_by)
        elif error.retryable and not isinstance(error, _REPAIRED):
            wait = (self._in_flight.next_retry(now) or now) - now
            self._broker.log.retrying(f"sending to {self._name}", error, queue.backoff.failures, max(0.0, wait))

    # ends

    def _settle(self, batch: Batch, *, base_offset: int | None = None, error: QuiverError | None = None) -> None:
        batch.base_offset, batch.error = base_offset, error
        batch.release()
        if error is not None:
            self._remember(batch)
        batch.outcome.watchers.changed()
        self._count(-batch.size, -1)

    def _abandon(self, pending: PendingRows, error: QuiverError) -> None:
        """Fails messages that did not get as far as a batch."""
        self._remember(pending.outcome)
        pending.outcome.fail(error)
        self._count(-pending.size, -1)

    def _remember(self, failure: Batch | SendOutcome) -> None:
        with self._mutex:
            if len(self._failed) < _FAILURES_KEPT:
                self._failed.append(failure)

    def _count(self, size: int, count: int) -> None:
        with self._mutex:
            self.unsettled_bytes += size
            self.unsettled_count += count
        if size < 0 or count < 0:
            self.progress.changed()

    def _pause(self, error: QuiverError) -> None:
        """The broker cannot be reached: tries again a little later."""
        delay = self._backoff.next_seconds()
        self._paused_until = self._broker.clock.monotonic() + delay
        self._broker.log.retrying(f"sending to {self._name}", error, self._backoff.failures, delay)
        self._in_flight.note_error(error)
        self._wake()

    def _fail_everything(self, error: QuiverError, *, in_flight_too: bool = False) -> None:
        while self._ready:
            self._abandon(self._ready.popleft(), error)
        for batch in self._in_flight.take_all(in_flight_too=in_flight_too or self.closed_by is not None):
            self._settle(batch, error=error)
