"""Messages that were taken and have no outcome yet: how many, how large, and which failed. Pure but for a mutex."""

import threading

from quiver.client.produce.batches.batch import Batch
from quiver.client.produce.batches.send_outcome import SendOutcome, fresh
from quiver.client.produce.batches.watchers import Watchers
from quiver.client.produce.chunk import PendingRows
from quiver.model.errors import QuiverError

_FAILURES_KEPT = 100


class Unsettled:
    """The unsettled messages of one producer, each counted once: first as rows, then in batches."""

    __slots__ = ("_failed", "_mutex", "count", "progress", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self.count = 0
        self.progress = Watchers()
        """Called whenever something is settled."""
        self._mutex = threading.Lock()
        self._failed: list[Batch | SendOutcome] = []

    def add(self, size: int, count: int) -> None:
        with self._mutex:
            self.size_bytes += size
            self.count += count
        if size < 0 or count < 0:
            self.progress.changed()

    def settle(self, batch: Batch, *, base_offset: int | None = None, error: QuiverError | None = None) -> None:
        """A batch is stored, or has finally failed."""
        batch.base_offset, batch.error = base_offset, error
        batch.release()
        if error is not None:
            self._remember(batch)
        for outcome in batch.outcomes:
            outcome.watchers.changed()
        self.add(-batch.size, -1)

    def fail_rows(self, pending: PendingRows, error: QuiverError) -> None:
        """Messages failed before they got into a batch."""
        self._remember(pending.outcome)
        pending.outcome.fail(error, pending.count)
        self.add(-pending.size, -1)

    def raise_unseen(self) -> None:
        """Raises the first failure that no future has reported."""
        with self._mutex:
            failed, self._failed = self._failed, []
        for failure in failed:
            if not failure.error_seen and failure.error is not None:
                failure.error_seen = True
                raise fresh(failure.error)

    def forget_failures(self) -> None:
        with self._mutex:
            self._failed = []

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    def _remember(self, failure: Batch | SendOutcome) -> None:
        with self._mutex:
            if len(self._failed) < _FAILURES_KEPT:
                self._failed.append(failure)
