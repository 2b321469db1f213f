"""Turns rows into batches of partitions, again if the topic has changed. Pure."""

from collections.abc import Sequence

from quiver.client.produce.batches.batch import Batch, batches_of, single_batch
from quiver.client.produce.batches.in_flight import InFlightBatches
from quiver.client.produce.batches.routing import Router
from quiver.client.produce.batches.send_outcome import Placement, SendOutcome
from quiver.client.produce.batches.unsettled import Unsettled
from quiver.client.produce.chunk import PendingRows
from quiver.client.produce.options import ProducerConfig
from quiver.client.produce.route import PLAIN_ROUTE
from quiver.client.produce.rows import Rows
from quiver.model.errors import QuiverError


class BatchRouter:
    def __init__(
        self, router: Router, in_flight: InFlightBatches, unsettled: Unsettled, config: ProducerConfig
    ) -> None:
        self._router = router
        self._in_flight = in_flight
        self._unsettled = unsettled
        self._config = config

    def place(self, together: Sequence[PendingRows], partition_count: int, deadline: float) -> int:
        """Splits rows of one route and enqueues their batches, or fails them; returns the number of batches."""
        opened = [(pending, rows) for pending in together if (rows := self._open(pending)) is not None]
        if not opened:
            return 0
        route, outcomes = opened[0][0].route, list(dict.fromkeys(pending.outcome for pending, _ in opened))
        limits = self._config.batch_limits(delayed=route.delayed)
        try:
            joined = Rows.joined([rows for _, rows in opened])
            routed = self._router.route(joined, route.partition, partition_count, self._in_flight.is_failing, limits)
        except QuiverError as error:
            for pending, _ in opened:
                self._unsettled.fail_rows(pending, error)
            return 0
        batches = batches_of(routed, outcomes, route, sum(pending.size for pending, _ in opened), deadline)
        placement, start = Placement(batches, routed.order), 0
        for pending, rows in opened:
            pending.outcome.place(placement, start, start + len(rows))
            start += len(rows)
        self._enqueue(batches, len(opened))
        return len(batches)

    def single(
        self, outcome: SendOutcome, key: bytes | None, size: int, partition_count: int, deadline: float
    ) -> Batch:
        """The batch of one message, which is not enqueued."""
        partition = self._router.partition_of(key, partition_count, self._in_flight.is_failing)
        return single_batch(outcome, PLAIN_ROUTE, partition, hashed=key is not None, size=size, deadline=deadline)

    def _open(self, pending: PendingRows) -> Rows | None:
        try:
            return pending.rows()
        except QuiverError as error:
            self._unsettled.fail_rows(pending, error)
            return None

    def fail(self, batch: Batch, error: QuiverError) -> None:
        """There is no place for a batch any more."""
        self._unsettled.settle(batch, error=error)

    def place_again(self, batch: Batch, partition_count: int) -> None:
        """Routes a batch by another number of partitions, or fails it."""
        rows, route = batch.open_rows(), batch.route
        try:
            routed = self._router.route(rows, route.partition, partition_count, self._in_flight.is_failing)
        except QuiverError as error:
            self._unsettled.settle(batch, error=error)
            return
        batches = batches_of(routed, batch.outcomes, route, batch.size, batch.deadline)
        batch.placement = Placement(batches, routed.order)
        batch.release()
        self._enqueue(batches, 1)

    def _enqueue(self, batches: Sequence[Batch], counted: int) -> None:
        """Adds the batches of rows that were counted before."""
        self._unsettled.add(0, len(batches) - counted)
        self._in_flight.enqueue(batches)
