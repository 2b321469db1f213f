"""`python -m benchmarks`: measure, print the tables, leave a result file."""

import argparse
import dataclasses
import datetime
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.comparison import WORKLOADS, compare
from benchmarks.goals import judge
from benchmarks.machine.limits import measure_limits
from benchmarks.machine.machine import machine, source, versions
from benchmarks.peers import all_peers
from benchmarks.reports.against import measure_against, show_ratios
from benchmarks.reports.report import report
from benchmarks.result import RESULTS, Result, read_result, write_result
from benchmarks.run import Run
from benchmarks.scale import SCALES, Scale
from benchmarks.subject import Subject
from benchmarks.workloads import OWN_WORKLOADS
from benchmarks.workloads.messages.quiver_comparison import compare_quiver

ALL_WORKLOADS = (*WORKLOADS, *OWN_WORKLOADS)
LONG_WORKLOADS = {"start-up", "postgres-sizes"} | {name for name in OWN_WORKLOADS if name.startswith("spark-")}
"""A quarter of an hour by themselves: measured when they are named."""


def main() -> int:
    arguments = _arguments()
    if arguments.show is not None:
        print(report(read_result(arguments.show)))
        return 0
    if arguments.against is not None:
        return _against(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(
        prefix="quiver-bench-", dir=arguments.scratch, ignore_cleanup_errors=True
    ) as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)  # PostgreSQL runs as a user of its own
        run = Run(_scale(arguments), scratch)
        if arguments.limits:
            measure_limits(run)
        subjects = _measure(run, arguments.only, _chosen(arguments))
        result = _result(run, subjects, started)
    print(report(result))
    print(f"result: {write_result(result, arguments.results)}", file=sys.stderr)
    return 1 if run.failed else 0


def _against(arguments: argparse.Namespace) -> int:
    """1 when a figure is worse in every turn, and by more than 5 % in the median."""
    names = sorted(_chosen(arguments))
    given = ["--scale", arguments.scale, "--repetitions", "1", "--without-limits", "--only", "quiver"]
    given += ["--workloads", ",".join(names), "--scratch", str(arguments.scratch)]
    found = measure_against(
        arguments.against.resolve(), arguments.turns, given, arguments.scratch, at_most_seconds=arguments.at_most
    )
    print(show_ratios(found))
    return 1 if any(ratio.verdict == "worse" for ratio in found) else 0


def _scale(arguments: argparse.Namespace) -> Scale:
    scale = SCALES[arguments.scale]
    if arguments.repetitions:
        scale = dataclasses.replace(scale, repetitions=arguments.repetitions)
    return dataclasses.replace(scale, budget_seconds=2 * scale.budget_seconds) if arguments.long else scale


def _chosen(arguments: argparse.Namespace) -> set[str]:
    """The workloads that are named, or those of the scale, or all but the long ones."""
    if arguments.workloads:
        return set(arguments.workloads)
    standard = set(SCALES[arguments.scale].workloads) or set(ALL_WORKLOADS) - LONG_WORKLOADS
    return standard | (LONG_WORKLOADS if arguments.long else set())


def _measure(run: Run, only: list[str], workloads: set[str]) -> list[Subject]:
    """Quiver, then the peers, then what only Quiver does; returns the subjects that were measured."""
    measured: list[Subject] = []
    if _wanted("quiver", only):
        run.attempt("quiver", lambda: measured.extend(compare_quiver(run, workloads)))
    peers = [peer for peer in all_peers() if _wanted(peer.name, only)]
    if workloads & set(WORKLOADS):
        measured += [peer for peer in peers if _measure_peer(run, peer, workloads)]
    if _wanted("quiver", only):
        for name, measure in OWN_WORKLOADS.items():
            if name in workloads:
                run.attempt(f"quiver {name}", lambda measure=measure: measure(run))  # type: ignore[misc]
    return measured


def _measure_peer(run: Run, peer: Subject, workloads: set[str]) -> bool:
    reason = peer.missing()
    if reason is not None:
        run.skip(peer.name, reason)
        return False

    def measure() -> None:
        try:
            peer.start(run.scratch)
            run.say(f"{peer.name}: {peer.version}")
            compare(run, [peer], workloads)
        finally:
            peer.stop()

    run.attempt(peer.name, measure)
    return True


def _result(run: Run, subjects: list[Subject], started: str) -> Result:
    peers = [subject.name for subject in subjects if not subject.name.startswith("quiver")]
    return Result(
        started=started,
        seconds=round(run.seconds(), 1),
        scale=run.scale.name,
        repetitions=run.scale.repetitions,
        command=sys.argv[1:],
        machine=machine(run.scratch),
        source=source(),
        versions=versions(),
        subjects={s.name: {"version": s.version, "client": s.client, "ack": s.durability} for s in subjects},
        peers=peers,
        limits=run.limits,
        measurements=run.results.all,
        goals=judge(run.results, set(peers), run.limits),
        skipped=run.skipped,
        failed=run.failed,
        durations=run.durations,
    )


def _wanted(name: str, only: list[str]) -> bool:
    return not only or any(name.startswith(prefix) for prefix in only)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _workloads(text: str) -> set[str]:
    names = set(_names(text))
    if unknown := names - set(ALL_WORKLOADS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose from {', '.join(ALL_WORKLOADS)}")
    return names


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--scale", choices=SCALES, default="full", help="how much is measured (default: full)")
    scale.add_argument("--quick", dest="scale", action="store_const", const="quick", help="under three minutes")
    parser.add_argument(
        "--only", type=_names, default=[], help="subjects, by the beginning of their names: quiver,nats"
    )
    parser.add_argument("--workloads", type=_workloads, default=set(), help=", ".join(ALL_WORKLOADS))
    parser.add_argument(
        "--long", action="store_true", help="also the workloads that take a quarter of an hour by themselves"
    )
    parser.add_argument("--repetitions", type=int, help="instead of those of the scale")
    parser.add_argument(
        "--without-limits", dest="limits", action="store_false", help="do not measure what the machine can do"
    )
    parser.add_argument(
        "--against", type=Path, metavar="DIR", help="measure the Quiver of another checkout and this one in turns"
    )
    parser.add_argument("--turns", type=int, default=5, help="how many turns (with --against; default: 5)")
    parser.add_argument(
        "--at-most", type=float, metavar="SECONDS", help="begin no further turn that would take longer (--against)"
    )
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"), help="where data is written (a real disk)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the result file goes")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="print the tables of a result file and do nothing else"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
