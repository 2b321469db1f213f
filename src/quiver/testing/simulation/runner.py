"""One seed, and many seeds spread over the cores."""

import gc
import multiprocessing
from collections.abc import Generator, Sequence
from functools import partial

from quiver.testing.simulation.cluster.scenario import ClusterScenario
from quiver.testing.simulation.plan import Plan
from quiver.testing.simulation.run import Report
from quiver.testing.simulation.scenario import Scenario

_RUNS_PER_PROCESS = 20
"""What was killed in a run is never cleaned up, so a process does not run for ever."""


def run(seed: int, plan: Plan, twice: bool = False) -> Report:
    """One seed; with `twice`, two runs whose traces must be equal."""
    report = _once(seed, plan)
    if twice and not report.violations:
        again = _once(seed, plan)
        if again.trace_hash != report.trace_hash:
            report.violations.append(f"two runs differ: {report.trace_hash} and {again.trace_hash}")
    return report


def _once(seed: int, plan: Plan) -> Report:
    return (ClusterScenario if plan.is_cluster else Scenario)(seed, plan).run()


def run_many(
    seeds: Sequence[int], plan: Plan, *, twice: bool, processes: int | None
) -> Generator[Report, None, None]:
    """The report of each seed, in the order in which they end."""
    # Not a ProcessPoolExecutor: with `max_tasks_per_child` it may end up without processes, and waits for ever. What
    # is there at the beginning, which is all modules, is set aside: a collection looks at what a run has made.
    with multiprocessing.get_context("spawn").Pool(processes, gc.freeze, maxtasksperchild=_RUNS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(partial(run, plan=plan, twice=twice), seeds)
