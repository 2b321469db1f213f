"""All batches of a producer that are not settled: waiting, in flight, or refused and to be rerouted.

Pure but for a mutex.
"""

import math
import threading
from collections.abc import Callable, Iterable, Sequence

from quiver.client.produce.batches.batch import Batch, SendQueueKey
from quiver.client.produce.batches.send_queue import PartitionSendQueue
from quiver.client.produce.options import IN_FLIGHT_PER_PARTITION
from quiver.model.errors import (
    ConnectionLost,
    OutOfSequence,
    QuiverError,
    StalePartitionCount,
    TopicNotFound,
    UnknownProducer,
    WorkerUnavailable,
)
from quiver.structures.ordered_set import OrderedSet
from quiver.system.backoff import Backoff

_WRITE_BYTES = 4 * 1024 * 1024
_WRITE_BATCHES = 256
ENOUGH_IN_FLIGHT = 256
"""Enough to keep a broker busy: meanwhile rows gather, which makes frames fewer and larger."""
NO_IDENTITY = (-1, -1)

InFlightBatch = tuple[PartitionSendQueue, Batch]


class InFlightBatches:
    def __init__(
        self, new_backoff: Callable[[], Backoff], *, idempotent: bool, is_transactional: bool = False
    ) -> None:
        self._new_backoff = new_backoff
        self._idempotent = idempotent
        self._is_transactional = is_transactional
        """There is no new epoch within a transaction: sequences that cannot be repaired end it."""
        self._mutex = threading.Lock()
        self._queues: dict[SendQueueKey, PartitionSendQueue] = {}
        self._busy: dict[SendQueueKey, PartitionSendQueue] = {}
        """Queues with something to send."""
        self._in_flight: OrderedSet[Batch] = OrderedSet()
        """In the order in which they were sent."""
        self._next_deadline = math.inf
        """A lower bound for the deadlines of waiting batches."""
        self._misplaced: list[Batch] = []
        """Refused because the topic has changed; to be routed again once nothing is in flight."""
        self._serial = 0

    @property
    def has_work(self) -> bool:
        return bool(self._busy or self._misplaced)

    @property
    def is_clear(self) -> bool:
        """No batch waits that only a full window holds back."""
        return not any(queue.waiting and not queue.is_failing for queue in list(self._busy.values()))

    @property
    def room(self) -> int:
        """How many more batches may be added."""
        return ENOUGH_IN_FLIGHT - len(self._in_flight)

    @property
    def can_be_rerouted(self) -> bool:
        return bool(self._misplaced) and not self._in_flight

    def is_failing(self, partition: int) -> bool:
        queues = (self._queues.get((partition, is_delayed)) for is_delayed in (False, True))
        return any(queue is not None and queue.is_failing for queue in queues)

    def enqueue(self, batches: Iterable[Batch]) -> None:
        with self._mutex:
            for batch in batches:
                queue = self._queues.get(batch.queue_key)
                if queue is None:
                    queue = self._queues[batch.queue_key] = PartitionSendQueue(
                        batch.queue_key, IN_FLIGHT_PER_PARTITION, self._new_backoff()
                    )
                self._serial += 1
                batch.serial = self._serial
                queue.waiting.append(batch)
                self._busy[batch.queue_key] = queue
                self._next_deadline = min(self._next_deadline, batch.deadline)

    def take(self, now: float, identity: tuple[int, int]) -> list[InFlightBatch]:
        """What to send in the next write; it counts as in flight. New queues begin with `identity`."""
        batches: list[InFlightBatch] = []
        size = 0
        with self._mutex:
            if self._misplaced:
                return []
            for queue in list(self._busy.values()):
                if size >= _WRITE_BYTES or len(batches) >= _WRITE_BATCHES:
                    break
                if queue.identity == NO_IDENTITY:
                    queue.identity = identity
                while size < _WRITE_BYTES and len(batches) < _WRITE_BATCHES:
                    batch = queue.take(now)
                    if batch is None:
                        break
                    batches.append((queue, batch))
                    self._in_flight.add(batch)
                    size += batch.size
                if not queue.waiting and not queue.returned:
                    del self._busy[queue.key]
        return batches

    def begin_single(self, batch: Batch, now: float) -> PartitionSendQueue | None:
        """Puts a batch in flight by itself; None when something waits or its queue does not take it now."""
        with self._mutex:
            queue = self._queues.get(batch.queue_key)
            if queue is None or queue.identity == NO_IDENTITY or queue.is_failing or self._busy or self._misplaced:
                return None
            queue.waiting.append(batch)
            if queue.take(now) is None:
                queue.waiting.pop()
                return None
            self._serial += 1
            batch.serial = self._serial
            self._in_flight.add(batch)
            return queue

    def acked(self, queue: PartitionSendQueue, batch: Batch) -> bool:
        """The batch is stored; False if it was given up meanwhile."""
        with self._mutex:
            if batch not in queue.in_flight:
                return False
            queue.acked(batch)
            self._in_flight.discard(batch)
            return True

    def refused(
        self,
        queue: PartitionSendQueue,
        batch: Batch,
        error: QuiverError,
        *,
        now: float,
        was_sent: bool,
    ) -> bool:
        """The batch was not stored; True if that is final and the caller has to settle it."""
        batch.last_error = error
        with self._mutex:
            if batch not in queue.in_flight:  # given up meanwhile
                return False
            self._in_flight.discard(batch)
            self._next_deadline = min(self._next_deadline, batch.deadline)
            if isinstance(error, OutOfSequence | UnknownProducer) and self._can_wait(batch, error):
                queue.out_of_sequence(batch)
            elif isinstance(error, StalePartitionCount | TopicNotFound):
                queue.dropped(batch)
                self._misplaced.append(batch)
                return False
            elif error.retryable:
                batch.is_uncertain |= was_sent and isinstance(error, ConnectionLost | WorkerUnavailable)
                queue.return_for_retry(batch, now)
            else:
                queue.dropped(batch)
                return True
            self._busy[queue.key] = queue
            return False

    def _can_wait(self, batch: Batch, error: QuiverError) -> bool:
        """Whether a sequence that does not fit may fit later: in the next epoch, or when earlier batches are
        settled."""
        if self._is_transactional:
            return isinstance(error, OutOfSequence) and not batch.is_head
        return self._idempotent

    def wanting_epoch(self) -> list[PartitionSendQueue]:
        with self._mutex:
            return [queue for queue in self._busy.values() if queue.wants_epoch]

    def begin_epoch(self, queue: PartitionSendQueue, identity: tuple[int, int]) -> None:
        with self._mutex:
            queue.begin_epoch(identity)

    def withdraw(self, *, is_new_topic: bool) -> list[Batch]:
        """What must be routed again, in order: refused batches, and waiting ones that were hashed the same way.

        Nothing about the old topic holds for a new one, so everything is routed again and sequences begin at 0.
        """
        with self._mutex:
            moved, self._misplaced = self._misplaced, []
            misplaced = list(moved)
            for queue in self._queues.values():
                moved += queue.withdraw(hashed_only=not is_new_topic)
            if self._is_transactional:
                for batch in sorted(misplaced, key=lambda batch: -batch.sequence):
                    self._queues[batch.queue_key].renumber(batch.sequence)
            if is_new_topic:
                self._queues.clear()
            self._busy = {key: queue for key, queue in self._queues.items() if queue.waiting}
        return sorted(moved, key=lambda batch: batch.serial)

    def expire(self, now: float) -> list[Batch]:
        """Removes what is past its deadline and not in flight."""
        if now < self._next_deadline:
            return []
        with self._mutex:
            late = [batch for queue in self._busy.values() for batch in queue.expired(now)]
            self._busy = {key: queue for key, queue in self._busy.items() if queue.waiting or queue.returned}
            late += [batch for batch in self._misplaced if batch.deadline <= now]
            self._misplaced = [batch for batch in self._misplaced if batch.deadline > now]
            left = [batch for queue in self._busy.values() for batch in (*queue.waiting, *queue.returned)]
            self._next_deadline = min((batch.deadline for batch in (*left, *self._misplaced)), default=math.inf)
        return late

    def note_error(self, error: QuiverError) -> None:
        """Remembers why waiting batches could not be sent, for when they time out."""
        with self._mutex:
            for queue in self._busy.values():
                for batch in queue.waiting:
                    batch.last_error = batch.last_error or error

    def next_retry(self, now: float) -> float | None:
        with self._mutex:
            times = [queue.retry_at for queue in self._busy.values() if queue.retry_at > now]
        return min(times, default=None)

    @property
    def oldest(self) -> Batch | None:
        """Of those in flight, the one that was sent first."""
        with self._mutex:
            return next(iter(self._in_flight), None)

    def is_unanswered_since(self, limit: float) -> bool:
        oldest = self.oldest
        return oldest is not None and oldest.sent_at < limit

    def begin_transaction(self) -> None:
        """Sequences begin at 0 in every queue; nothing may be in flight."""
        with self._mutex:
            self._queues.clear()
            self._busy.clear()

    def take_all(self, *, in_flight_too: bool) -> Sequence[Batch]:
        """Removes everything that waits, and also what is in flight if its response is to be ignored."""
        with self._mutex:
            batches, self._misplaced = self._misplaced, []
            for queue in self._queues.values():
                batches += queue.withdraw(hashed_only=False)
                if in_flight_too:
                    batches += queue.in_flight
                    queue.in_flight.clear()
            if in_flight_too:
                self._in_flight.clear()
            self._busy.clear()
        return batches

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
