"""The tables of a result, in Markdown: comparison, goals, limits of the machine, and everything else."""

from benchmarks.goals import best_of
from benchmarks.machine.noise import NOISY_CORES
from benchmarks.measurement import Measurement, Results
from benchmarks.reports.tables import name_best, number, pair, table, with_range
from benchmarks.result import Result

NOISE = ("foreign_cores", "stolen_cores")
SPEED = "calibration_python_ms"
BULK = {"publish": "publish msg/s", "consume": "consume msg/s", "both": "both msg/s"}
KEYED = {"keyed publish": "publish msg/s", "keyed consume": "consume msg/s"}
WORK = {"work in batches": "batches of 100, msg/s", "work one by one": "one by one, msg/s"}
BULK_LIMITS = ("sequential write, fdatasync every MiB", "write to the page cache", "loopback TCP, chunks of 1 MiB")
SYNC_LIMITS = ("fdatasync after 4 KiB", "loopback round trip of 100 B")


def report(result: Result) -> str:
    results = Results(result.measurements)
    parts = [_heading(result)]
    kinds = dict.fromkeys((m.message_bytes, m.detail) for m in results.of("publish"))
    for size, detail in sorted(kinds):
        title = f"messages of {size} B" + (f" of {detail}" if detail else "")
        parts.append(f"## The same work, {title}\n\n{_comparison(result, BULK, size, detail)}")
    parts += [
        f"## By key to {detail}\n\n{_comparison(result, KEYED, None, detail)}"
        for detail in sorted({m.detail for m in results.of("keyed publish")}, key=len)
    ]
    if results.of("latency"):
        parts.append(f"## One message at a time, 1,000 a second\n\n{_latency(result, results)}")
    if results.of("work in batches"):
        parts.append(f"## As a work queue, one consumer\n\n{_comparison(result, WORK, None, '')}")
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
        f"of {result.repetitions} repetitions, in brackets the lowest and the highest; 'x' is the ratio to the best "
        f"peer's median. {_noisy(result)}{_speed(result)}"
    )


def _noisy(result: Result) -> str:
    repetitions = [repetition for m in result.measurements for repetition in m.repetitions]
    noisy = sum(max(r.get(name, 0.0) for name in NOISE) > NOISY_CORES for r in repetitions)
    return f"Others used more than {NOISY_CORES} cores in {noisy} of {len(repetitions)} repetitions."


def _speed(result: Result) -> str:
    speeds = sorted(value for m in result.measurements for value in m.values(SPEED))
    if not speeds:
        return ""
    return (
        f" The same piece of Python took {speeds[0]:.1f} to {speeds[-1]:.1f} ms of processor time beside them, "
        f"{speeds[len(speeds) // 2]:.1f} in the median."
    )


def _comparison(result: Result, workloads: dict[str, str], size: int | None, detail: str) -> str:
    """A row for each subject, a column for each workload; below it the best and what the machine could do."""
    found = {
        workload: {m.subject: m for m in Results(result.measurements).of(workload, size) if m.detail == detail}
        for workload in workloads
    }
    best = {name: best_of(m for m in ms.values() if m.subject in result.peers) for name, ms in found.items()}
    rows = []
    for subject in dict.fromkeys(subject for ms in found.values() for subject in ms):
        row, durability = [subject], ""
        for workload, figure in best.items():
            measurement = found[workload].get(subject)
            row.append(with_range(measurement, "rate"))
            row.append(f"{measurement.median('rate') / figure.median:.1f}" if measurement and figure else "")
            durability = measurement.durability if measurement else durability
        rows.append([*row, durability])
    header = ["", *(cell for title in workloads.values() for cell in (title, "x")), "an ack means"]
    winners = [f"{name}: {name_best(ms.values(), 'rate', result.peers)}" for name, ms in found.items() if ms]
    return f"{table(header, rows)}\n\nBest · {'; '.join(winners)}.\n{_limit_line(result, BULK_LIMITS, size)}"


def _latency(result: Result, results: Results) -> str:
    measured = results.of("latency")
    header = ["", "ack p50 / p99 ms", "receive p50 / p99 ms", "reached a second", "the disk alone p50 / p99 ms"]
    rows = [
        [m.subject, pair(m, "ack"), pair(m, "receive"), with_range(m, "rate_achieved"), pair(m, "disk"), m.durability]
        for m in measured
    ]
    metrics = ("ack_p50_ms", "ack_p99_ms", "receive_p50_ms", "receive_p99_ms")
    winners = [f"{metric}: {name_best(measured, metric, result.peers)}" for metric in metrics]
    text = table([*header, "an ack means"], rows)
    return f"{text}\n\nBest · {'; '.join(winners)}.\n{_limit_line(result, SYNC_LIMITS, None)}"


def _limit_line(result: Result, names: tuple[str, ...], size: int | None) -> str:
    """The limits that concern a table; a rate in bytes also as messages of that size."""
    parts = []
    for name in names:
        metrics = result.limits.get(name, {})
        shown = [f"{metric} {number(value)}" for metric, value in metrics.items() if not metric.endswith("max_ms")]
        if size and "rate_mb" in metrics:
            shown = [f"{number(metrics['rate_mb'])} MB/s, {number(metrics['rate_mb'] * 1e6 / size)} msg/s"]
        if shown:
            parts.append(f"{name}: {', '.join(shown)}")
    return f"The machine · {'; '.join(parts)}." if parts else ""


def _goals(result: Result) -> str:
    rows = []
    for verdict in result.goals:
        if verdict.median is not None and verdict.best is not None:
            target = f"{verdict.target} {verdict.unit}"
            rows.append([verdict.figure, target, number(verdict.median), number(verdict.best), verdict.outcome])
    missing = len(result.goals) - len(rows)
    text = table(["figure", "target", "median", "best", ""], rows)
    return f"{text}\n\n{missing} figures were not measured in this run." if missing else text


def _limits(result: Result) -> str:
    rows = [
        [name, ", ".join(f"{metric} {number(value)}" for metric, value in metrics.items())]
        for name, metrics in result.limits.items()
    ]
    return table(["limit", "measured"], rows)


def _own(result: Result, results: Results) -> str:
    compared = {*BULK, *KEYED, *WORK, "latency"}
    rows = []
    for m in results.all:
        if m.workload in compared or m.subject in result.peers:
            continue
        metrics = ", ".join(f"{name} {with_range(m, name)}" for name in _shown(m))
        rows.append([f"{m.subject}: {m.workload}", m.detail, m.durability, metrics])
    return table(["workload", "", "durability", "measured"], rows)


def _shown(measurement: Measurement) -> list[str]:
    return [name for name in measurement.metrics() if name not in NOISE and not name.startswith("calibration")]


def _left_out(result: Result) -> str:
    lines = [f"- {name}: {reason}" for name, reason in result.skipped.items()]
    lines += [f"- {name}: failed, {problem.splitlines()[-1]}" for name, problem in result.failed.items()]
    return "\n".join(lines)
