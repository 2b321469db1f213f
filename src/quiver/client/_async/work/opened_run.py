"""A received run, checked and opened: its jobs, and its Arrow columns."""

from itertools import repeat
from typing import Any

import pyarrow as pa

from quiver.client._async.work.job import AsyncJob, AsyncJobSource
from quiver.client._async.work.settler import AsyncSettler
from quiver.client.work.held_run import HeldRun
from quiver.client.work.job_arrow import job_arrow
from quiver.client.work.prefetch_buffer import PrefetchBuffer, Slice
from quiver.model.limits import Limits


class AsyncOpenedRun:
    """Both are made at their first use, for the whole run, and kept as long as this object."""

    __slots__ = ("_arrow", "_frame", "_jobs", "_source", "run")

    def __init__(
        self, run: HeldRun, limits: Limits, settler: AsyncSettler, ordered: PrefetchBuffer[Any] | None
    ) -> None:
        """Raises CorruptData if the run's bytes are damaged."""
        self.run = run
        self._frame = run.open(limits)
        self._source = AsyncJobSource(self._frame, run, settler, ordered)
        self._jobs: list[AsyncJob] | None = None
        self._arrow: pa.RecordBatch | None = None

    @property
    def is_ordered(self) -> bool:
        return self._source.ordered is not None

    def jobs(self) -> list[AsyncJob]:
        if self._jobs is None:
            columns = self._frame.offsets(), self._frame.keys(), self._frame.values()
            self._jobs = list(map(AsyncJob, repeat(self._source), *columns))
        return self._jobs

    def arrow(self) -> pa.RecordBatch:
        if self._arrow is None:
            self._arrow = job_arrow(self._frame, self.run)
        return self._arrow


def jobs_of(taken: Slice[AsyncOpenedRun]) -> list[AsyncJob]:
    """The jobs of some rows."""
    opened = taken.buffered.content
    assert opened is not None, "slices are opened when they are taken"
    return opened.jobs()[taken.first : taken.last]
