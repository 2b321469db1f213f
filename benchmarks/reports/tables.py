"""Pieces of a report: Markdown tables, numbers with their range, the best named."""

from collections.abc import Callable, Iterable, Sequence

from benchmarks.measurement import Measurement


def number(value: float) -> str:
    """Three digits are what these measurements are worth."""
    if abs(value) >= 999_500:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 9_995:
        return f"{value / 1e3:.0f} k"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def with_range(measurement: Measurement | None, metric: str) -> str:
    """The median, and in brackets the lowest and the highest repetition."""
    values = measurement.values(metric) if measurement is not None else []
    if measurement is None or not values:
        return ""
    median = number(measurement.median(metric))
    return median if len(values) == 1 else f"{median} ({number(min(values))}-{number(max(values))})"


def pair(measurement: Measurement | None, prefix: str) -> str:
    """Medians of p50 and p99."""
    if measurement is None or not measurement.values(f"{prefix}_p50_ms"):
        return ""
    return f"{measurement.median(f'{prefix}_p50_ms'):.2f} / {measurement.median(f'{prefix}_p99_ms'):.2f}"


def name_best(measurements: Iterable[Measurement], metric: str, peers: Sequence[str]) -> str:
    """Who is best by median, and beside it the best peer when that is somebody else."""
    found = [m for m in measurements if m.values(metric)]
    if not found:
        return ""
    pick: Callable[..., Measurement] = max if metric.startswith("rate") else min
    best = pick(found, key=lambda m: m.median(metric))
    text = f"{best.subject} ({number(best.median(metric))})"
    rivals = [m for m in found if m.subject in peers]
    if best.subject in peers or not rivals:
        return text
    rival = pick(rivals, key=lambda m: m.median(metric))
    return f"{text}, of the peers {rival.subject} ({number(rival.median(metric))})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    head = "| " + " | ".join(cell.ljust(width) for cell, width in zip(header, widths, strict=True)) + " |"
    return "\n".join([head, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines])
