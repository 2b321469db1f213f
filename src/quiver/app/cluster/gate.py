"""Whether a worker may do anything now: its broker runs it, and is a member of the cluster."""

from collections.abc import Callable

from quiver.model.errors import NotLeader, NotOwner, PartitionOffline, QuiverError, StaleEpoch


class WorkerGate:
    def __init__(self, worker: int, may_serve: Callable[[], bool], is_taken_over: Callable[[], bool]) -> None:
        self._worker, self._may_serve, self._is_taken_over = worker, may_serve, is_taken_over
        self.is_closed = False

    def refusal(self) -> NotOwner | None:
        if self.is_closed or not self._may_serve():
            return NotOwner(worker=self._worker)
        return None

    def explained(self, error: QuiverError) -> QuiverError:
        """Another broker has the worker, which this one has not heard yet."""
        if isinstance(error, StaleEpoch | NotLeader) or (
            isinstance(error, PartitionOffline) and self._is_taken_over()
        ):
            return NotOwner(worker=self._worker)
        return error
