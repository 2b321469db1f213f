"""The tables of a result, in Markdown: comparison, goals, limits of the machine, and everything else."""

from collections.abc import Sequence

from benchmarks.goals import best_of
from benchmarks.machine.noise import NOISY_CORES
from benchmarks.measurement import Measurement, Results
from benchmarks.result import Result

NOISE = ("foreign_cores", "stolen_cores")
WORK = ("work in batches", "work one by one")


def report(result: Result) -> str:
    results = Results(result.measurements)
    sizes = sorted({m.message_bytes for m in results.of("publish")})
    parts = [_heading(result)]
    parts += [f"## The same work, messages of {size} B\n\n{_comparison(result, results, size)}" for size in sizes]
    if results.of(WORK[0]):
        parts.append(f"## As a work queue, one consumer\n\n{_work(result, results)}")
    parts.append(f"## What must be reached\n\n{_goals(result)}")
    parts.append(f"## Limits of the machine in the same run\n\n{_limits(result)}")
    parts.append(f"## Quiver alone\n\n{_own(result, results)}")
    if result.skipped or result.failed:
        parts.append("## Left out\n\n" + _left_out(result))
    return "\n\n".join(parts) + "\n"


def _heading(result: Result) -> str:
    machine, source = result.machine, result.source
    changed = " with changes" if source.get("changed") else ""
    return (
        f"# Benchmark of {result.started}, {result.scale} scale\n\n"
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python "
        f"{result.versions['python']}, commit {str(source['commit'])[:12]}{changed}; {result.seconds:.0f} s. Medians "
        f"of {result.repetitions} repetitions, the best in brackets; 'x' is the ratio to the best peer's median. "
        f"{_noisy(result)}"
    )


def _noisy(result: Result) -> str:
    repetitions = [repetition for m in result.measurements for repetition in m.repetitions]
    noisy = sum(max(r.get(name, 0.0) for name in NOISE) > NOISY_CORES for r in repetitions)
    return f"Others used more than {NOISY_CORES} cores in {noisy} of {len(repetitions)} repetitions."


def _comparison(result: Result, results: Results, size: int) -> str:
    header = ["", "publish msg/s", "x", "consume msg/s", "x", "both msg/s", "x", "ack p50 / p99 ms"]
    header += ["receive p50 / p99 ms", "an ack means"]
    best = {
        workload: best_of(m for m in results.of(workload, size) if m.subject in result.peers)
        for workload in ("publish", "consume", "both")
    }
    rows = []
    for subject in dict.fromkeys(m.subject for m in results.of("publish", size)):
        found = {m.workload: m for m in results.all if m.subject == subject and m.message_bytes == size}
        row = [subject]
        for workload, figure in best.items():
            rate = found[workload].median("rate") if workload in found else None
            row.append(_with_best(found.get(workload), "rate"))
            row.append(f"{rate / figure.median:.1f}" if rate and figure else "")
        row += [_pair(found.get("latency"), "ack"), _pair(found.get("latency"), "receive")]
        rows.append([*row, next(iter(found.values())).durability])
    return table(header, rows)


def _work(result: Result, results: Results) -> str:
    best = {name: best_of(m for m in results.of(name) if m.subject in result.peers) for name in WORK}
    rows = []
    for subject in dict.fromkeys(m.subject for m in results.of(WORK[0])):
        row = [subject]
        for name, figure in best.items():
            found = next((m for m in results.of(name) if m.subject == subject), None)
            row.append(_with_best(found, "rate"))
            row.append(f"{found.median('rate') / figure.median:.1f}" if found and figure else "")
        rows.append([*row, next(m.durability for m in results.of(WORK[0]) if m.subject == subject)])
    return table(["", "batches of 100, msg/s", "x", "one by one, msg/s", "x", "durability"], rows)


def _goals(result: Result) -> str:
    rows = []
    for verdict in result.goals:
        measured = "" if verdict.median is None else number(verdict.median)
        best = "" if verdict.best is None else number(verdict.best)
        rows.append([verdict.figure, f"{verdict.target} {verdict.unit}", measured, best, verdict.outcome])
    return table(["figure", "target", "median", "best", ""], rows)


def _limits(result: Result) -> str:
    rows = [
        [name, ", ".join(f"{metric} {number(value)}" for metric, value in metrics.items())]
        for name, metrics in result.limits.items()
    ]
    return table(["limit", "measured"], rows)


def _own(result: Result, results: Results) -> str:
    compared = {"publish", "consume", "both", *WORK}
    rows = []
    for m in results.all:
        if m.workload in compared or m.subject in result.peers:
            continue
        metrics = ", ".join(f"{name} {_with_best(m, name)}" for name in m.metrics() if name not in NOISE)
        rows.append([f"{m.subject}: {m.workload}", m.detail, m.durability, metrics])
    return table(["workload", "", "durability", "measured"], rows)


def _left_out(result: Result) -> str:
    lines = [f"- {name}: {reason}" for name, reason in result.skipped.items()]
    lines += [f"- {name}: failed, {problem.splitlines()[-1]}" for name, problem in result.failed.items()]
    return "\n".join(lines)


def _with_best(measurement: Measurement | None, metric: str) -> str:
    if measurement is None or not measurement.values(metric):
        return ""
    median, best = number(measurement.median(metric)), number(measurement.best(metric))
    return median if len(measurement.values(metric)) == 1 else f"{median} ({best})"


def _pair(measurement: Measurement | None, prefix: str) -> str:
    if measurement is None:
        return ""
    return f"{measurement.median(f'{prefix}_p50_ms'):.2f} / {measurement.median(f'{prefix}_p99_ms'):.2f}"


def number(value: float) -> str:
    """Three digits are what these measurements are worth."""
    if abs(value) >= 999_500:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 9_995:
        return f"{value / 1e3:.0f} k"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    head = "| " + " | ".join(cell.ljust(width) for cell, width in zip(header, widths, strict=True)) + " |"
    return "\n".join([head, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines])
