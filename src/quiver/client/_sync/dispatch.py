# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""The back half of a producer: routes parcels to partitions, keeps frames in flight, tries again, settles.

Whoever has a reason pumps: the caller of `send_many`, `publish` and `flush`, and the background task for lingering
chunks, retries and freed windows. One pumps at a time. Answers are taken where they are received and only change state.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from quiver.client._backend_sync import Lock
from quiver.client._sync.connection import Outbound
from quiver.client._sync.link import Link, unexpected
from quiver.client.backoff import backoff_seconds
from quiver.client.chunk import Parcel
from quiver.client.delivery import Batch, Delivery, Placement
from quiver.client.lane import Lane
from quiver.client.producer_options import IN_FLIGHT_PER_PARTITION, ProducerOptions
from quiver.client.routing import Routed, Router
from quiver.client.rows import Rows
from quiver.client.watchers import Watchers
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

_WRITE_BYTES = 4 * 1024 * 1024
_WRITE_BATCHES = 256
_FAILURES_KEPT = 100
_TICK_SECONDS = 1.0
_NO_IDENTITY = (-1, -1)

Flight = tuple[Lane, Batch]


class Dispatch:
    """Belongs to one producer. `gather` seals what is due, `wake` calls the background task."""

    def __init__(
        self,
        link: Link,
        topic: str,
        options: ProducerOptions,
        *,
        gather: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.topic: TopicInfo | None = None
        self.unsettled_bytes = 0
        self.unsettled_count = 0
        self.progress = Watchers()
        """Told whenever something is settled."""
        self._failed: list[Batch] = []
        self._link = link
        self._name = topic
        self._options = options
        self._gather = gather
        self._wake = wake
        self._mutex = threading.Lock()
        self._pumping = Lock()
        self._ready: deque[Parcel] = deque()
        self._router = Router(topic, int(link.randomness.jitter() * 1_000_000))
        self._lanes: dict[int, Lane] = {}
        self._busy: dict[int, Lane] = {}
        """Lanes with something to send."""
        self._flying = 0
        self._misplaced: list[Batch] = []
        self._identity = _NO_IDENTITY
        self._serial = 0
        self._paused_until = 0.0
        self._failures = 0
        self._closed: QuiverError | None = None

    def submit(self, parcel: Parcel) -> None:
        """Takes a parcel over; it is sent by the next pump."""
        with self._mutex:
            self.unsettled_bytes += parcel.size
            self.unsettled_count += 1
        self._ready.append(parcel)

    @property
    def is_clear(self) -> bool:
        """Nothing waits that could be sent but for a full window: the time to send what lingers."""
        return not self._ready and not any(lane.waiting and not lane.is_troubled for lane in self._busy.values())

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def has_work(self) -> bool:
        return bool(self._ready or self._busy or self._misplaced)

    def load_topic(self) -> TopicInfo:
        if self.topic is None:
            self.topic = self._link.topic(self._name)
        return self.topic

    def pump(self) -> None:
        """Sends everything that may go now. Troubles end up in tickets and retries, not with the caller."""
        with self._pumping:
            while self._closed is None:
                self._gather()
                self._expire()
                if not self.has_work or self._link.clock.monotonic() < self._paused_until:
                    return
                try:
                    self._prepare()
                except (ConnectionLost, RequestTimeout) as error:
                    self._pause(error)
                    return
                except QuiverError as error:
                    self._fail_everything(error)
                    return
                flights = self._take()
                if not flights:
                    return
                self._launch(flights)

    def seconds_until_due(self) -> float | None:
        """When to pump again without being woken; None when there is nothing to wait for."""
        if self.unsettled_count == 0:
            return None
        now = self._link.clock.monotonic()
        with self._mutex:
            times = [lane.retry_at for lane in self._busy.values() if lane.retry_at > now]
        if self.has_work and self._paused_until > now:
            times.append(self._paused_until)
        return max(0.0, min((*times, now + _TICK_SECONDS)) - now)

    def raise_unseen(self) -> None:
        """Raises the first failure that no ticket has told anybody about."""
        with self._mutex:
            failed, self._failed = self._failed, []
        for batch in failed:
            if not batch.error_seen and batch.error is not None:
                batch.error_seen = True
                raise batch.error

    def check_answers(self) -> None:
        """Drops a connection that has not answered for too long; what was in flight is then sent again."""
        limit = self._link.clock.monotonic() - self._options.request_seconds
        with self._mutex:
            late = any(batch.sent_at < limit for lane in self._lanes.values() for batch in lane.flying)
        if late:
            problem = f"no answer for {self._options.request_seconds:g} s"
            (self._link.connection()).fail(ConnectionLost(address=self._link.address, problem=problem))

    def close(self, error: QuiverError) -> None:
        """Fails whatever is not settled."""
        self._closed = error
        self._fail_everything(error)

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    # routing

    def _prepare(self) -> None:
        topic = self.load_topic()
        while self._ready:
            self._place(self._ready.popleft(), topic)
        if self._misplaced and not self._flying:
            self._place_misplaced(topic)
        if not self._options.idempotent:
            return
        if self._identity == _NO_IDENTITY:
            self._identity = self._new_identity(InitProducer())
        with self._mutex:
            renewed = [lane for lane in self._busy.values() if lane.wants_epoch]
        for lane in renewed:
            identity = self._new_identity(InitProducer(*lane.identity))
            with self._mutex:
                lane.begin_epoch(identity)

    def _new_identity(self, request: InitProducer) -> tuple[int, int]:
        connection = self._link.connection()
        answer = (connection.call(request, self._options.request_seconds)).answer
        if isinstance(answer, ProducerIdentity):
            return answer.producer_id, answer.epoch
        if isinstance(answer, Failure):
            error = error_from_wire(answer.code, answer.message, answer.retryable)
            raise ConnectionLost(error.message) if error.retryable else error
        raise unexpected(answer)

    def _place(self, parcel: Parcel, topic: TopicInfo) -> None:
        delivery, route = parcel.delivery, parcel.route
        try:
            routed = self._route(parcel.rows(), route.partition, topic)
        except QuiverError as error:
            delivery.fail(error)
            self._forget(parcel.size)
            return
        deadline = self._link.clock.monotonic() + self._options.delivery_seconds
        batches = _batches(routed, delivery, route.partition, route.priority, parcel.size, deadline)
        delivery.place(Placement(batches, routed.order))
        self._enqueue(batches)

    def _route(self, rows: Rows, chosen: int | None, topic: TopicInfo) -> Routed:
        lanes = self._lanes
        return self._router.route(
            rows, chosen, topic.partitions, lambda number: number in lanes and lanes[number].is_troubled
        )

    def _enqueue(self, batches: Sequence[Batch]) -> None:
        """Adds batches that came from one that was counted already."""
        with self._mutex:
            self.unsettled_count += len(batches) - 1
            for batch in batches:
                lane = self._lanes.get(batch.partition)
                if lane is None:
                    lane = self._lanes[batch.partition] = Lane(batch.partition, IN_FLIGHT_PER_PARTITION)
                self._serial += 1
                batch.serial = self._serial
                lane.waiting.append(batch)
                self._busy[batch.partition] = lane

    def _place_misplaced(self, known: TopicInfo) -> None:
        """Routes anew what was refused because the topic has changed, and what waits and was hashed like it."""
        try:
            topic = self.topic = self._link.topic(self._name)
        except TopicNotFound as error:
            misplaced, self._misplaced = self._misplaced, []
            for batch in misplaced:
                self._settle(batch, error=error)
            return
        is_new = topic.id != known.id
        with self._mutex:
            moved, self._misplaced = self._misplaced, []
            for lane in self._lanes.values():
                moved += lane.withdraw(hashed_only=not is_new)
            if is_new:
                self._lanes.clear()
            self._busy = {number: lane for number, lane in self._lanes.items() if lane.waiting}
        for batch in sorted(moved, key=lambda batch: batch.serial):
            if isinstance(batch.last_error, TopicNotFound) and not is_new:
                self._settle(batch, error=batch.last_error)
            else:
                self._place_again(batch, topic)

    def _place_again(self, batch: Batch, topic: TopicInfo) -> None:
        try:
            routed = self._route(batch.open_rows(), batch.chosen, topic)
        except QuiverError as error:
            self._settle(batch, error=error)
            return
        batches = _batches(routed, batch.delivery, batch.chosen, batch.priority, batch.size, batch.deadline)
        batch.placement = Placement(batches, routed.order)
        batch.release()
        self._enqueue(batches)

    # flights

    def _take(self) -> list[Flight]:
        now = self._link.clock.monotonic()
        flights: list[Flight] = []
        size = 0
        with self._mutex:
            if self._misplaced:
                return []
            for lane in list(self._busy.values()):
                if lane.identity == _NO_IDENTITY:
                    lane.identity = self._identity
                while size < _WRITE_BYTES and len(flights) < _WRITE_BATCHES:
                    batch = lane.take(now)
                    if batch is None:
                        break
                    flights.append((lane, batch))
                    size += batch.size
                if not lane.waiting and not lane.returned:
                    del self._busy[lane.partition]
            self._flying += len(flights)
        return flights

    def _launch(self, flights: list[Flight]) -> None:
        assert self.topic is not None
        try:
            connection = self._link.connection()
        except QuiverError as error:
            for lane, batch in flights:
                self._refused(lane, batch, error, was_sent=False)
            return
        outbound: list[Outbound] = []
        is_answered = self._options.acks != ACKS_NONE
        for lane, batch in flights:
            try:
                frame = batch.build(lane.identity, self._options.compression)
            except QuiverError as error:
                self._refused(lane, batch, error, was_sent=False)
                continue
            # What may be stored already is not hashed again: it would be stored twice.
            count = self.topic.partitions if batch.hashed and not batch.is_uncertain else 0
            request = Produce(self.topic.id, batch.partition, count, self._options.acks)
            outbound.append(Outbound(request, frame, partial(self._answered, lane, batch) if is_answered else None))
        connection.send(outbound)
        if not is_answered:
            self._assume_stored(flights, connection.is_open)

    def _assume_stored(self, flights: list[Flight], was_sent: bool) -> None:
        for lane, batch in flights:
            if batch.is_settled:
                continue
            if was_sent:
                self._acked(lane, batch, -1)
            else:
                self._refused(lane, batch, ConnectionLost(address=self._link.address, problem="it broke"))

    def _answered(self, lane: Lane, batch: Batch, answer: Answer | QuiverError, _: memoryview) -> None:
        if isinstance(answer, Produced):
            self._acked(lane, batch, answer.base_offset)
        elif isinstance(answer, Failure):
            self._refused(lane, batch, error_from_wire(answer.code, answer.message, answer.retryable))
        else:
            self._refused(lane, batch, answer if isinstance(answer, QuiverError) else unexpected(answer))
        if self.has_work:
            self._wake()

    def _acked(self, lane: Lane, batch: Batch, base_offset: int) -> None:
        with self._mutex:
            lane.acked(batch)
            self._flying -= 1
            self._failures = 0
        self._settle(batch, base_offset=base_offset)

    def _refused(self, lane: Lane, batch: Batch, error: QuiverError, *, was_sent: bool = True) -> None:
        batch.last_error = error
        is_final = False
        with self._mutex:
            self._flying -= 1
            if self._closed is not None:
                lane.dropped(batch)
                is_final = True
            elif isinstance(error, OutOfSequence | UnknownProducer) and self._options.idempotent:
                lane.out_of_sequence(batch)
                self._busy[lane.partition] = lane
            elif isinstance(error, StalePartitionCount | TopicNotFound):
                lane.dropped(batch)
                self._misplaced.append(batch)
            elif error.retryable:
                batch.is_uncertain |= was_sent and isinstance(error, ConnectionLost)
                delay = backoff_seconds(lane.failures, self._link.randomness.jitter())
                lane.came_back(batch, self._link.clock.monotonic() + delay)
                self._busy[lane.partition] = lane
            else:
                lane.dropped(batch)
                is_final = True
        if is_final:
            self._settle(batch, error=error)

    # ends

    def _settle(self, batch: Batch, *, base_offset: int | None = None, error: QuiverError | None = None) -> None:
        batch.base_offset, batch.error = base_offset, error
        batch.release()
        if error is not None:
            with self._mutex:
                self._failed = [*self._failed[: _FAILURES_KEPT - 1], batch]
        batch.delivery.watchers.changed()
        self._forget(batch.size)

    def _forget(self, size: int) -> None:
        with self._mutex:
            self.unsettled_bytes -= size
            self.unsettled_count -= 1
        self.progress.changed()

    def _expire(self) -> None:
        now = self._link.clock.monotonic()
        with self._mutex:
            late = [batch for lane in self._busy.values() for batch in lane.expired(now)]
            late += [batch for batch in self._misplaced if batch.deadline <= now]
            self._misplaced = [batch for batch in self._misplaced if batch.deadline > now]
        for batch in late:
            self._settle(batch, error=batch.last_error or RequestTimeout(seconds=self._options.delivery_seconds))

    def _pause(self, error: QuiverError) -> None:
        """The broker cannot be reached: tries again a little later."""
        delay = backoff_seconds(self._failures, self._link.randomness.jitter())
        self._failures += 1
        self._paused_until = self._link.clock.monotonic() + delay
        with self._mutex:
            for lane in self._busy.values():
                for batch in lane.waiting:
                    batch.last_error = batch.last_error or error
        self._wake()

    def _fail_everything(self, error: QuiverError) -> None:
        while self._ready:
            parcel = self._ready.popleft()
            parcel.delivery.fail(error)
            self._forget(parcel.size)
        with self._mutex:
            stuck = [batch for lane in self._lanes.values() for batch in (*lane.returned, *lane.withdraw(False))]
            stuck += self._misplaced
            self._misplaced = []
            self._busy.clear()
        for batch in dict.fromkeys(stuck):
            self._settle(batch, error=error)


def _batches(
    routed: Routed, delivery: Delivery, chosen: int | None, priority: int, size: int, deadline: float
) -> list[Batch]:
    """One batch a part; the size is shared out by count, and the sum stays exact."""
    total = sum(len(rows) for _, rows in routed.parts)
    batches: list[Batch] = []
    left = size
    for partition, rows in routed.parts:
        share = size * len(rows) // total if len(batches) < len(routed.parts) - 1 else left
        left -= share
        batches.append(
            Batch(
                delivery,
                rows,
                partition,
                chosen=chosen,
                hashed=routed.hashed,
                priority=priority,
                size=share,
                deadline=deadline,
            )
        )
    return batches
