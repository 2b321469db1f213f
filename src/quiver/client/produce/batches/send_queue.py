"""Sends the batches of one partition, or its delayed ones, in order and each once. Pure: no clock, no I/O.

A batch waits, is in flight, and ends: acked, finally refused, or returned to be sent again. As soon as one returns,
nothing more is sent until nothing is in flight; then the returned ones go first, in their old order and with their
old sequences, so that the broker recognises what it already has. If a batch is out of sequence although nothing
before it was in flight, the sequences cannot be repaired: the queue asks for a new epoch, in which batches are
numbered from 0.
"""

from collections import deque

from quiver.client.produce.batches.batch import UNNUMBERED, Batch, SendQueueKey
from quiver.model.limits import SEQUENCE_LIMIT
from quiver.structures.ordered_set import OrderedSet
from quiver.system.backoff import Backoff


class PartitionSendQueue:
    __slots__ = (
        "backoff",
        "identity",
        "in_flight",
        "is_backing_off",
        "key",
        "needs_epoch",
        "next_sequence",
        "retry_at",
        "returned",
        "waiting",
        "window",
    )

    def __init__(self, key: SendQueueKey, window: int, backoff: Backoff) -> None:
        self.key = key
        self.window = window
        self.waiting: deque[Batch] = deque()
        self.in_flight: OrderedSet[Batch] = OrderedSet()
        self.returned: list[Batch] = []
        self.identity = (-1, -1)
        self.next_sequence = 0
        self.needs_epoch = False
        self.retry_at = 0.0
        self.backoff = backoff
        """A failure is a round in which something was returned."""
        self.is_backing_off = False

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.in_flight or self.returned)

    @property
    def is_failing(self) -> bool:
        return bool(self.returned or self.needs_epoch or self.backoff.failures)

    @property
    def wants_epoch(self) -> bool:
        """The sequences cannot be repaired, and nothing is in flight any more."""
        return self.needs_epoch and not self.in_flight

    def take(self, now: float) -> Batch | None:
        """The next batch to send, numbered and in flight; None if none may be sent."""
        if self.returned:
            if self.in_flight:
                return None
            self._requeue()
        if not self.waiting or len(self.in_flight) >= self.window or self.needs_epoch or now < self.retry_at:
            return None
        batch = self.waiting.popleft()
        batch.is_head = not self.in_flight
        batch.sent_at = now
        self.in_flight.add(batch)
        if batch.sequence == UNNUMBERED:
            batch.sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.count) % SEQUENCE_LIMIT
        return batch

    def acked(self, batch: Batch) -> None:
        self.in_flight.discard(batch)
        if self.backoff.failures:
            self.backoff.reset()
            self.retry_at = 0.0

    def dropped(self, batch: Batch) -> None:
        """Finally refused, or rerouted."""
        self.in_flight.discard(batch)

    def return_for_retry(self, batch: Batch, now: float) -> None:
        """To be sent again after a pause."""
        self.in_flight.discard(batch)
        self.returned.append(batch)
        if not self.is_backing_off:
            self.is_backing_off = True
            self.retry_at = now + self.backoff.next_seconds()

    def out_of_sequence(self, batch: Batch) -> None:
        """The broker expected another sequence. That is normal while something before it is in flight."""
        self.in_flight.discard(batch)
        self.returned.append(batch)
        if batch.is_head:
            self.needs_epoch = True

    def begin_epoch(self, identity: tuple[int, int]) -> None:
        """Numbers everything that is not stored from 0 again."""
        self._requeue()
        self.identity = identity
        self.needs_epoch = False
        self.next_sequence = 0
        for batch in self.waiting:
            batch.sequence = UNNUMBERED
            batch.is_uncertain = False

    def renumber(self, sequence: int) -> None:
        """A batch with this sequence was refused and rerouted: nothing after it can be stored yet."""
        self.next_sequence = sequence
        for batch in self.waiting:
            if batch.sequence >= sequence:
                batch.sequence = UNNUMBERED
                batch.identity = (-1, -1)

    def withdraw(self, hashed_only: bool) -> list[Batch]:
        """Removes what waits (with `hashed_only`, what was routed by its key and was not sent before)."""
        self._requeue()
        kept: deque[Batch] = deque()
        taken: list[Batch] = []
        for batch in self.waiting:
            movable = not hashed_only or (batch.hashed and not batch.is_uncertain)
            (taken if movable else kept).append(batch)
        self.waiting = kept
        return taken

    def expired(self, now: float) -> list[Batch]:
        """Removes what waits and is past its deadline."""
        if not any(batch.deadline <= now for batch in (*self.waiting, *self.returned)):
            return []
        late = [batch for batch in (*self.returned, *self.waiting) if batch.deadline <= now]
        self.returned = [batch for batch in self.returned if batch.deadline > now]
        self.waiting = deque(batch for batch in self.waiting if batch.deadline > now)
        return late

    def _requeue(self) -> None:
        self.returned.sort(key=lambda batch: batch.serial)
        self.waiting.extendleft(reversed(self.returned))
        self.returned = []
        self.is_backing_off = False
