"""The command: `python -m quiver.testing.replication --seeds 100 --seconds 60`."""

import argparse
import os
import sys

from quiver.testing.replication.scenario import ReplicationScenario


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"  # the order of sets depends on it
        os.execv(sys.executable, [sys.executable, "-m", "quiver.testing.replication", *sys.argv[1:]])  # noqa: S606
    parser = argparse.ArgumentParser(description="Runs three replicas with faults in virtual time.")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual seconds of faults in each run")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        report = ReplicationScenario(seed, options.seconds).run()
        shown = f"{report.acked} of {report.sent} acked, {report.epochs} epochs, {report.deleted} logs deleted"
        print(f"seed {seed}: {shown}, {report.losses} losses, {report.trace_hash}", flush=True)
        for violation in report.violations[:5]:
            print(f"    {violation}")
        failed += bool(report.violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
