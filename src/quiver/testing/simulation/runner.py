"""Many seeds, spread over the cores, until one fails."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from functools import partial

from quiver.testing.simulation.scenario import Report, Scenario

_RUNS_PER_PROCESS = 20
"""What was killed in a run is never cleaned up, so a process does not run for ever."""
_TOLD_EVERY = 50


def run(seed: int, seconds: float, twice: bool = False) -> Report:
    """One seed; with `twice`, two runs whose traces must be equal."""
    report = Scenario(seed, seconds).run()
    if twice and not report.violations:
        again = Scenario(seed, seconds).run()
        if again.trace_hash != report.trace_hash:
            report.violations.append(f"two runs differ: {report.trace_hash} and {again.trace_hash}")
    return report


def run_many(
    seeds: Sequence[int], seconds: float, *, twice: bool, processes: int | None, tell: Callable[[str], None]
) -> Report | None:
    """The report of a seed that fails, as soon as there is one; None when all pass."""
    begun = time.monotonic()
    # Not a ProcessPoolExecutor: with `max_tasks_per_child` it may end up without processes, and waits for ever.
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=_RUNS_PER_PROCESS) as pool:
        one = partial(run, seconds=seconds, twice=twice)
        for count, report in enumerate(pool.imap_unordered(one, seeds), 1):
            if report.violations:
                return report
            if count % _TOLD_EVERY == 0:
                tell(f"{count} of {len(seeds)} seeds pass ({time.monotonic() - begun:.0f} s)")
    tell(f"{len(seeds)} seeds of {seconds:g} virtual seconds pass, in {time.monotonic() - begun:.0f} s")
    return None
