"""From rows to batches of partitions, also again when the topic has changed. Pure."""

from collections.abc import Sequence

from quiver.client.produce.batches.batch import Batch, batches_of
from quiver.client.produce.batches.in_flight import InFlightBatches
from quiver.client.produce.batches.routing import Router
from quiver.client.produce.batches.send_outcome import Placement
from quiver.client.produce.batches.unsettled import Unsettled
from quiver.client.produce.chunk import PendingRows
from quiver.model.errors import QuiverError


class BatchRouter:
    def __init__(self, router: Router, in_flight: InFlightBatches, unsettled: Unsettled) -> None:
        self._router = router
        self._in_flight = in_flight
        self._unsettled = unsettled

    def place(self, pending: PendingRows, partition_count: int, deadline: float) -> None:
        """Enqueues the batches of rows, or fails the rows."""
        outcome, route = pending.outcome, pending.route
        try:
            routed = self._router.route(pending.rows(), route.partition, partition_count, self._in_flight.is_failing)
        except QuiverError as error:
            self._unsettled.fail_rows(pending, error)
            return
        batches = batches_of(routed, outcome, route, pending.size, deadline)
        outcome.place(Placement(batches, routed.order))
        self._enqueue(batches)

    def place_again(self, batch: Batch, partition_count: int) -> None:
        """Routes a batch by another number of partitions, or fails it."""
        rows, route = batch.open_rows(), batch.route
        try:
            routed = self._router.route(rows, route.partition, partition_count, self._in_flight.is_failing)
        except QuiverError as error:
            self._unsettled.settle(batch, error=error)
            return
        batches = batches_of(routed, batch.outcome, route, batch.size, batch.deadline)
        batch.placement = Placement(batches, routed.order)
        batch.release()
        self._enqueue(batches)

    def _enqueue(self, batches: Sequence[Batch]) -> None:
        """Adds the batches of rows, or of a batch, that were counted as one."""
        self._unsettled.add(0, len(batches) - 1)
        self._in_flight.enqueue(batches)
