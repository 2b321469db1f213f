"""The command: `python -m quiver.testing.simulation --seed 7 --seconds 60`."""

import argparse
import os
import sys

from quiver.testing.simulation.runner import run, run_many
from quiver.testing.simulation.scenario import Report

_MODULE = "quiver.testing.simulation"
_HASH_SEED = "0"
_SHOWN_VIOLATIONS = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}", description="Runs brokers and clients in virtual time."
    )
    parser.add_argument("--seed", type=int, help="run this seed only, and tell more")
    parser.add_argument("--first", type=int, default=1, help="the first of many seeds")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual seconds of faults in each run")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--twice", action="store_true", help="run each seed twice and compare the traces")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        # The order of sets depends on it, and it cannot be changed in a process that runs.
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", _MODULE, *sys.argv[1:]])  # noqa: S606 - this command again
    if options.seed is not None:
        report: Report | None = run(options.seed, options.seconds, options.twice)
    else:
        report = run_many(
            range(options.first, options.first + options.seeds),
            options.seconds,
            twice=options.twice,
            processes=options.processes,
            tell=_tell,
        )
    return 0 if report is None else _show(report, options.seconds)


def _tell(line: str) -> None:
    print(line, flush=True)


def _show(report: Report, seconds: float) -> int:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(report.counts.items()))
    _tell(
        f"seed {report.seed}: {report.seconds:.1f} virtual seconds, {report.turns} turns, trace {report.trace_hash}"
    )
    _tell(f"events: {counts}")
    for violation in report.violations[:_SHOWN_VIOLATIONS]:
        _tell(f"VIOLATION: {violation}")
    if not report.violations:
        return 0
    command = f"python -m {_MODULE} --seed {report.seed} --seconds {seconds:g}"
    _tell(f"{len(report.violations)} violations. To repeat: {command}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
