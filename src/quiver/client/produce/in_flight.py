"""All lanes of a producer: what waits, what flies, what was misplaced. Pure, but for a mutex."""

import threading
from collections.abc import Iterable, Sequence

from quiver.client.backoff import backoff_seconds
from quiver.client.produce.options import IN_FLIGHT_PER_PARTITION
from quiver.client.produce.send_outcome import Batch, LaneKey
from quiver.client.produce.send_queue import Lane
from quiver.model.errors import (
    ConnectionLost,
    OutOfSequence,
    QuiverError,
    StalePartitionCount,
    TopicNotFound,
    UnknownProducer,
)

_WRITE_BYTES = 4 * 1024 * 1024
_WRITE_BATCHES = 256
NO_IDENTITY = (-1, -1)

Flight = tuple[Lane, Batch]


class Fleet:
    def __init__(self, *, idempotent: bool, is_transactional: bool = False) -> None:
        self._idempotent = idempotent
        self._is_transactional = is_transactional
        """There is no new epoch within a transaction: numbers that cannot be repaired end it."""
        self._mutex = threading.Lock()
        self._lanes: dict[LaneKey, Lane] = {}
        self._busy: dict[LaneKey, Lane] = {}
        """Lanes with something to send."""
        self._flying = 0
        self._misplaced: list[Batch] = []
        """Refused because the topic is not what it was; to be routed anew once nothing flies."""
        self._serial = 0

    @property
    def has_work(self) -> bool:
        return bool(self._busy or self._misplaced)

    @property
    def is_clear(self) -> bool:
        """No batch waits that only a full window holds back."""
        return not any(lane.waiting and not lane.is_troubled for lane in list(self._busy.values()))

    @property
    def can_be_rerouted(self) -> bool:
        return bool(self._misplaced) and not self._flying

    def is_troubled(self, partition: int) -> bool:
        lanes = (self._lanes.get((partition, is_delayed)) for is_delayed in (False, True))
        return any(lane is not None and lane.is_troubled for lane in lanes)

    def enqueue(self, batches: Iterable[Batch]) -> None:
        with self._mutex:
            for batch in batches:
                lane = self._lanes.get(batch.lane_key)
                if lane is None:
                    lane = self._lanes[batch.lane_key] = Lane(batch.lane_key, IN_FLIGHT_PER_PARTITION)
                self._serial += 1
                batch.serial = self._serial
                lane.waiting.append(batch)
                self._busy[batch.lane_key] = lane

    def take(self, now: float, identity: tuple[int, int]) -> list[Flight]:
        """What to send in the next write, now in flight. New lanes begin under `identity`."""
        flights: list[Flight] = []
        size = 0
        with self._mutex:
            if self._misplaced:
                return []
            for lane in list(self._busy.values()):
                if lane.identity == NO_IDENTITY:
                    lane.identity = identity
                while size < _WRITE_BYTES and len(flights) < _WRITE_BATCHES:
                    batch = lane.take(now)
                    if batch is None:
                        break
                    flights.append((lane, batch))
                    size += batch.size
                if not lane.waiting and not lane.returned:
                    del self._busy[lane.key]
            self._flying += len(flights)
        return flights

    def acked(self, lane: Lane, batch: Batch) -> bool:
        """Lands a flight; False when it was given up meanwhile."""
        with self._mutex:
            if batch not in lane.flying:
                return False
            lane.acked(batch)
            self._flying -= 1
            return True

    def refused(
        self, lane: Lane, batch: Batch, error: QuiverError, *, now: float, jitter: float, was_sent: bool
    ) -> bool:
        """Takes a flight back; True when it failed for good and is the caller's to settle."""
        batch.last_error = error
        with self._mutex:
            if batch not in lane.flying:  # given up meanwhile
                return False
            self._flying -= 1
            if isinstance(error, OutOfSequence | UnknownProducer) and self._can_wait(batch, error):
                lane.out_of_sequence(batch)
            elif isinstance(error, StalePartitionCount | TopicNotFound):
                lane.dropped(batch)
                self._misplaced.append(batch)
                return False
            elif error.retryable:
                batch.is_uncertain |= was_sent and isinstance(error, ConnectionLost)
                lane.came_back(batch, now + backoff_seconds(lane.failures, jitter))
            else:
                lane.dropped(batch)
                return True
            self._busy[lane.key] = lane
            return False

    def _can_wait(self, batch: Batch, error: QuiverError) -> bool:
        """Whether numbers that do not fit may fit later: in the next epoch, or when those in front have landed."""
        if self._is_transactional:
            return isinstance(error, OutOfSequence) and not batch.is_head
        return self._idempotent

    def wanting_epoch(self) -> list[Lane]:
        with self._mutex:
            return [lane for lane in self._busy.values() if lane.wants_epoch]

    def begin_epoch(self, lane: Lane, identity: tuple[int, int]) -> None:
        with self._mutex:
            lane.begin_epoch(identity)

    def withdraw(self, *, is_new_topic: bool) -> list[Batch]:
        """What must be routed anew, in order: what was misplaced, and what waits and was hashed as it was.

        Of a new topic nothing that is known of the old one holds, so everything goes and sequences begin anew.
        """
        with self._mutex:
            moved, self._misplaced = self._misplaced, []
            misplaced = list(moved)
            for lane in self._lanes.values():
                moved += lane.withdraw(hashed_only=not is_new_topic)
            if self._is_transactional:
                for batch in sorted(misplaced, key=lambda batch: -batch.sequence):
                    self._lanes[batch.lane_key].renumber(batch.sequence)
            if is_new_topic:
                self._lanes.clear()
            self._busy = {key: lane for key, lane in self._lanes.items() if lane.waiting}
        return sorted(moved, key=lambda batch: batch.serial)

    def expire(self, now: float) -> list[Batch]:
        """Takes out what is past its deadline and not in flight."""
        if not self.has_work:
            return []
        with self._mutex:
            late = [batch for lane in self._busy.values() for batch in lane.expired(now)]
            self._busy = {key: lane for key, lane in self._busy.items() if lane.waiting or lane.returned}
            late += [batch for batch in self._misplaced if batch.deadline <= now]
            self._misplaced = [batch for batch in self._misplaced if batch.deadline > now]
        return late

    def blame(self, error: QuiverError) -> None:
        """Remembers why what waits could not be sent, for when its time is over."""
        with self._mutex:
            for lane in self._busy.values():
                for batch in lane.waiting:
                    batch.last_error = batch.last_error or error

    def next_retry(self, now: float) -> float | None:
        with self._mutex:
            times = [lane.retry_at for lane in self._busy.values() if lane.retry_at > now]
        return min(times, default=None)

    def is_unanswered_since(self, limit: float) -> bool:
        if not self._flying:
            return False
        with self._mutex:
            return any(batch.sent_at < limit for lane in self._lanes.values() for batch in lane.flying)

    def begin_transaction(self) -> None:
        """Sequences begin at 0 in every lane; nothing is on its way."""
        with self._mutex:
            self._lanes.clear()
            self._busy.clear()

    def surrender(self, *, flying_too: bool) -> Sequence[Batch]:
        """Takes out everything, also what is in flight if nobody will wait for its answer."""
        with self._mutex:
            batches, self._misplaced = self._misplaced, []
            for lane in self._lanes.values():
                batches += lane.withdraw(hashed_only=False)
                if flying_too:
                    batches += lane.flying
                    self._flying -= len(lane.flying)
                    lane.flying.clear()
            self._busy.clear()
        return batches

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
