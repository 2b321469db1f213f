"""What a job shows: a progress bar while it runs, from Spark's status tracker, and a summary at the end."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from quiver.system.randomness import SystemRandomness
from quiver_spark.runtime.cluster import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.2


class Summary(msgspec.Struct, kw_only=True):
    """What a job has done."""

    job: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    details: dict[str, Any] = {}
    """Figures that only this job has. A terminal leaves out lists of records: `lines` has them for people."""
    lines: list[str] = []
    """Tables and charts for a terminal, shown before the figures."""

    @property
    def rows_per_second(self) -> int:
        return round(self.rows / self.seconds) if self.seconds else 0

    def record(self) -> dict[str, Any]:
        """One flat record, for tables and JSON."""
        figures = {"rows": self.rows, "files": self.files, "bytes": self.bytes}
        times = {"seconds": round(self.seconds, 3), "rows_per_second": self.rows_per_second}
        return {"job": self.job, **figures, **times, **self.details}


class Bar(Protocol):
    """Takes the progress of a job."""

    def advance(self, amount: int) -> None: ...

    def watch(self, spark: "SparkSession", amount: int) -> "Any":
        """A `with` block around one Spark job that does `amount` of the work, task by task."""
        ...


class _NoBar:
    def advance(self, amount: int) -> None:
        return

    @contextmanager
    def watch(self, spark: "SparkSession", amount: int) -> Iterator[None]:
        yield


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task
        self._done = 0.0

    def advance(self, amount: int) -> None:
        self._done += amount
        self._progress.update(self._task, completed=self._done)

    @contextmanager
    def watch(self, spark: "SparkSession", amount: int) -> Iterator[None]:
        if is_remote(spark):  # its tasks cannot be seen from here
            yield
            self.advance(amount)
            return
        ended = threading.Event()
        context = spark.sparkContext
        group = f"quiver-{SystemRandomness().token(6).hex()}"
        context.setJobGroup(group, "quiver", interruptOnCancel=True)

        def look() -> None:
            while not ended.wait(_LOOK_SECONDS):
                self._progress.update(self._task, completed=self._done + amount * share_done(context, group))

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
            self._done += amount
        finally:
            ended.set()
            watcher.join()
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            self._progress.update(self._task, completed=self._done)


def share_done(context: Any, group: str) -> float:
    """The share of the tasks of a job group that have ended."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in map(tracker.getStageInfo, info.stageIds if info else ()):
            if stage is not None:
                done, total = done + stage.numCompletedTasks, total + stage.numTasks
    return done / total if total else 0.0


@contextmanager
def progress_bar(what: str, total: int, unit: str = "rows", *, wanted: bool | None = None) -> Iterator[Bar]:
    """A bar on standard error; none if that is not a terminal, unless it is `wanted`."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as shown:
        yield _RichBar(shown, shown.add_task(what, total=total))
