# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Takes messages off the shelf: opened, and only those that are still ours."""

from quiver.client._sync.work.opened_run import OpenedRun, jobs_of
from quiver.client._sync.work.settler import Settler
from quiver.client.work.held_run import HeldRun
from quiver.client.work.prefetch_buffer import Portion, Shelf
from quiver.client.work.window import Window
from quiver.model.errors import QuiverError
from quiver.model.limits import Limits


class Picker:
    def __init__(
        self, shelf: Shelf[OpenedRun], settler: Settler, window: Window, limits: Limits, *, is_ordered: bool
    ) -> None:
        self._shelf = shelf
        self._settler = settler
        self._window = window
        self._limits = limits
        self.is_ordered = is_ordered

    def take(self, limit: int) -> Portion[OpenedRun] | None:
        """Up to `limit` rows of the run whose turn it is; CorruptData when its bytes are damaged."""
        clock, shelf = self._settler.clock, self._shelf
        while True:
            portion = shelf.take(1 if shelf.has_stopped_keys else limit, clock.now_ms())
            if portion is None:
                return None
            stock = portion.stock
            if stock.content is None:
                self._window.waited(clock.monotonic() - stock.arrived_at)
                stock.content = self._open(stock.run)
            if stock.run.lost is None and not shelf.has_stopped_keys:
                return portion
            if portion.last - portion.first > 1:
                shelf.give_back(portion)
                limit = 1
            elif self._is_ours(portion):
                return portion

    def is_doubtful(self, portion: Portion[OpenedRun]) -> bool:
        """Whether the lease should be over by now: then only the broker knows whose it is."""
        return self._settler.clock.monotonic() >= portion.stock.run.expires_at

    def _open(self, run: HeldRun) -> OpenedRun:
        try:
            return OpenedRun(run, self._limits, self._settler, self._shelf if self.is_ordered else None)
        except QuiverError:
            self._shelf.drop(run)
            self._settler.leases.drop(run)
            raise

    def _is_ours(self, portion: Portion[OpenedRun]) -> bool:
        """Whether a single row is still to be handed out; one that is not needs nothing more from here."""
        run = portion.stock.run
        job = jobs_of(portion)[0]
        if run.lost is not None and job.offset in run.lost:
            return False
        if job.key is not None and self._shelf.is_stopped(run.lease, job.key):
            job.forget()
            return False
        return True
