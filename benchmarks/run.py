"""One run of the benchmarks: its scale, its place on disk, its results so far and what was left out."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.machine.calibration import calibrate, mean
from benchmarks.machine.noise import Noise
from benchmarks.measurement import Metrics, Results
from benchmarks.scale import Scale

FEW = 2


class Run:
    def __init__(self, scale: Scale, scratch: Path) -> None:
        self.scale = scale
        self.scratch = scratch
        self.results = Results()
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.limits: dict[str, Metrics] = {}
        self.durations: dict[str, float] = {}
        """Seconds of each piece of work: where the time of a run goes."""
        self._begin = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def skip(self, name: str, reason: str) -> None:
        self.skipped[name] = reason
        self.say(f"{name}: skipped, {reason}")

    def attempt(self, name: str, work: Callable[[], None]) -> None:
        """Does the work unless the time is up; a failure is part of the result and ends only this piece of work."""
        if self.seconds() > self.scale.budget_seconds:
            self.skip(name, f"the run's {self.scale.budget_seconds:.0f} s were over")
            return
        begin = self.seconds()
        try:
            work()
        except Exception as error:
            self.failed[name] = f"{type(error).__name__}: {error}"
            self.say(f"{name}: failed\n{traceback.format_exc()}")
        self.durations[name] = round(self.seconds() - begin, 1)

    def repetitions(self) -> range:
        return range(self.scale.repetitions)

    def few_repetitions(self) -> range:
        """For work that takes minutes."""
        return range(min(FEW, self.scale.repetitions))

    @contextlib.contextmanager
    def measuring(
        self,
        subject: str,
        workload: str,
        *,
        size: int = 0,
        durability: str = "",
        detail: str = "",
        server_pids: Sequence[int] = (),
    ) -> Iterator[Metrics]:
        """Yields the metrics of one repetition to be filled in; records them beside the machine's noise and speed.

        Dirty pages of what ran before are written out first, so that nobody pays for another's writes.
        """
        if self.scale.settle:
            os.sync()
        metrics: Metrics = {}
        speed = calibrate()
        with Noise(server_pids) as noise:
            yield metrics
        self.say(f"{_title(subject, workload, size, durability, detail)}: {_brief(metrics)}")
        metrics |= {"foreign_cores": noise.foreign_cores, "stolen_cores": noise.stolen_cores}
        metrics |= mean(speed, calibrate())
        self.results.add(subject, workload, metrics, size=size, durability=durability, detail=detail)

    def say(self, line: str) -> None:
        print(f"[{self.seconds():6.1f} s] {line}", file=sys.stderr, flush=True)


def _title(subject: str, workload: str, size: int, durability: str, detail: str) -> str:
    parts = [subject, workload, f"{size} B" if size else "", durability, detail]
    return " · ".join(part for part in parts if part)


def _brief(metrics: Metrics) -> str:
    return ", ".join(
        f"{name} {value:,.0f}" if value >= 100 else f"{name} {value:.3g}" for name, value in metrics.items()
    )
