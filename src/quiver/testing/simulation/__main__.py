"""The command: `python -m quiver.testing.simulation --seed 7 --seconds 60`."""

import argparse
import os
import sys
from contextlib import closing

from quiver.system.clock import SystemClock
from quiver.testing.simulation.plan import Plan
from quiver.testing.simulation.run import Report
from quiver.testing.simulation.runner import run, run_many
from quiver.testing.simulation.workloads.choice import WORKLOADS

_MODULE = "quiver.testing.simulation"
_HASH_SEED = "0"
_SHOWN_VIOLATIONS = 5
_TOLD_EVERY = 50


def main() -> int:
    options = _options()
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        # The order of sets depends on it, and it cannot be changed in a process that runs.
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", _MODULE, *sys.argv[1:]])  # noqa: S606 - this command again
    if options.seed is None:
        return _run_many(options)
    report = run(options.seed, _plan(options), options.twice)
    _show(report, options)
    return 1 if report.violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}", description="Runs brokers and clients in virtual time."
    )
    parser.add_argument("--seed", type=int, help="run this seed only, and tell more")
    parser.add_argument("--first", type=int, default=1, help="the first of many seeds")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual seconds of faults in each run")
    parser.add_argument("--cluster", action="store_true", help="nodes of a cluster, instead of separate brokers")
    parser.add_argument(
        "--workers", type=int, help="so many workers in each broker or in the cluster, instead of what the seed says"
    )
    parser.add_argument("--workloads", type=_workloads, default=WORKLOADS, help=f"some of {','.join(WORKLOADS)}")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--twice", action="store_true", help="run each seed twice and compare the traces")
    parser.add_argument("--keep-going", action="store_true", help="show a seed that fails, and run the others too")
    return parser.parse_args()


def _workloads(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(WORKLOADS):
        raise argparse.ArgumentTypeError(f"there is no workload {' or '.join(sorted(unknown))}")
    return names


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(options.seconds, options.workers, options.workloads, options.cluster)


def _run_many(options: argparse.Namespace) -> int:
    seeds = range(options.first, options.first + options.seeds)
    clock = SystemClock()
    begun, passed, failed = clock.monotonic(), 0, list[int]()
    reports = run_many(seeds, _plan(options), twice=options.twice, processes=options.processes)
    with closing(reports):
        for report in reports:
            if report.violations:
                failed.append(report.seed)
                _show(report, options)
                if not options.keep_going:
                    return 1
            else:
                passed += 1
                if passed % _TOLD_EVERY == 0:
                    _tell(f"{passed} of {len(seeds)} seeds pass ({clock.monotonic() - begun:.0f} s)")
    _tell(f"{passed} seeds of {options.seconds:g} virtual seconds pass, in {clock.monotonic() - begun:.0f} s")
    if failed:
        _tell(f"{len(failed)} fail: {' '.join(map(str, sorted(failed)))}")
    return 1 if failed else 0


def _tell(line: str) -> None:
    print(line, flush=True)


def _show(report: Report, options: argparse.Namespace) -> None:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(report.counts.items()))
    _tell(
        f"seed {report.seed}: {report.seconds:.1f} virtual seconds, {report.turns} turns, trace {report.trace_hash}"
    )
    _tell(f"events: {counts}")
    for violation in report.violations[:_SHOWN_VIOLATIONS]:
        _tell(f"VIOLATION: {violation}")
    if report.violations:
        command = f"python -m {_MODULE} --seed {report.seed} --seconds {options.seconds:g}"
        if options.cluster:
            command += " --cluster"
        if options.workers:
            command += f" --workers {options.workers}"
        if options.workloads != WORKLOADS:
            command += f" --workloads {','.join(options.workloads)}"
        _tell(f"{len(report.violations)} violations. To repeat: {command}")


if __name__ == "__main__":
    sys.exit(main())
