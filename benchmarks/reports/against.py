"""Two checkouts of Quiver in turns, with this benchmark and this environment: the only way to see a few percent.

A machine's speed swings more between two runs than most changes are worth. Here each turn measures both checkouts
shortly after one another, the order changes with every turn, and what counts is the ratio within a turn.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine.noise import NOISY_CORES
from benchmarks.measurement import Measurement, Metrics
from benchmarks.reports.report import NOISE
from benchmarks.reports.tables import number, table
from benchmarks.result import Result, read_result

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 0.95


class Ratio(NamedTuple):
    """One figure of both checkouts; a ratio above 1 means that this one is better, whatever is measured."""

    figure: str
    metric: str
    base: float
    this: float
    by_turn: list[float]
    """Of the turns in which others used little of the machine; of all turns if there is none."""
    is_noisy: bool = False
    """Others used more in every turn."""

    @property
    def median(self) -> float:
        return statistics.median(self.by_turn)

    @property
    def verdict(self) -> str:
        if self.is_noisy:
            return "noisy"
        if self.median >= TOLERANCE:
            return ""
        return "worse" if len(self.by_turn) > 1 and max(self.by_turn) < 1 else "unclear"


def measure_against(
    base: Path, turns: int, arguments: Sequence[str], scratch: Path, *, at_most_seconds: float | None = None
) -> list[Ratio]:
    """Runs `python -m benchmarks` with these arguments on the source of `base` and on our own, in turns.

    No turn begins that would end after `at_most_seconds`, if it took as long as the one before.
    """
    if not (base / "src" / "quiver").is_dir():
        raise FileNotFoundError(f"{base} is not a checkout of Quiver: it has no src/quiver")
    pairs: list[tuple[Result, Result]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quiver-against-", dir=scratch) as folder:
        for turn in range(turns):
            first, second = (base, ROOT) if turn % 2 == 0 else (ROOT, base)
            one = _run(first, arguments, Path(folder) / f"{turn}-first")
            other = _run(second, arguments, Path(folder) / f"{turn}-second")
            pairs.append((one, other) if turn % 2 == 0 else (other, one))
            used = time.monotonic() - begun
            if at_most_seconds is not None and used + used / len(pairs) > at_most_seconds:
                break
    return ratios(pairs)


def ratios(pairs: Sequence[tuple[Result, Result]]) -> list[Ratio]:
    """Every figure that both checkouts have in every turn; first how fast the processor was for each."""
    turns = [(_figures(base), _figures(this)) for base, this in pairs]
    noisy = [_noisy(base) | _noisy(this) for base, this in pairs]
    shared = [key for key in turns[0][0] if all(key in base and key in this for base, this in turns)]
    found = []
    for figure, metric in shared:
        quiet = [turn for turn, loud in zip(turns, noisy, strict=True) if figure not in loud]
        found.append(_ratio(figure, metric, quiet or turns, is_noisy=not quiet))
    return sorted(found, key=lambda ratio: not ratio.metric.startswith("calibration"))


def show_ratios(found: Sequence[Ratio]) -> str:
    rows = [
        [
            ratio.figure,
            ratio.metric,
            number(ratio.base),
            number(ratio.this),
            f"{ratio.median:.2f} ({min(ratio.by_turn):.2f}-{max(ratio.by_turn):.2f})",
            str(len(ratio.by_turn)),
            ratio.verdict,
        ]
        for ratio in found
    ]
    return table(["figure", "metric", "base", "this", "ratio, better above 1", "turns", ""], rows)


def _run(checkout: Path, arguments: Sequence[str], results: Path) -> Result:
    command = [sys.executable, "-m", "benchmarks", *arguments, "--results", str(results)]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    [path] = results.iterdir()
    return read_result(path)


Figures = dict[tuple[str, str], float]


def _figures(result: Result) -> Figures:
    """By what was measured and metric: the median of the repetitions. Calibration is over the whole run."""
    found: Figures = {}
    speeds: dict[str, list[float]] = {}
    for measurement in result.measurements:
        for metric, value in _metrics(measurement).items():
            if metric.startswith("calibration"):
                speeds.setdefault(metric, []).append(value)
            elif metric not in NOISE:
                found[_name(measurement), metric] = value
    return found | {("the machine", metric): statistics.median(values) for metric, values in speeds.items()}


def _noisy(result: Result) -> set[str]:
    """What was measured while others used much of the machine."""
    return {
        _name(measurement)
        for measurement in result.measurements
        if any(repetition.get(name, 0.0) > NOISY_CORES for repetition in measurement.repetitions for name in NOISE)
    }


def _metrics(measurement: Measurement) -> Metrics:
    """Cores become processor time per message, which swings less than a rate does; a maximum says nothing."""
    medians = {
        metric: measurement.median(metric) for metric in measurement.metrics() if not metric.endswith("max_ms")
    }
    for side in ("client", "server"):
        cores = medians.pop(f"{side}_cores", None)
        if cores is not None:
            medians[f"{side}_us_per_message"] = cores / medians["rate"] * 1e6
    return medians


def _name(m: Measurement) -> str:
    parts = [m.subject, m.workload, f"{m.message_bytes} B" if m.message_bytes else "", m.durability, m.detail]
    return " · ".join(part for part in parts if part)


def _ratio(figure: str, metric: str, turns: Sequence[tuple[Figures, Figures]], *, is_noisy: bool) -> Ratio:
    key = (figure, metric)
    base, this = [turn[0][key] for turn in turns], [turn[1][key] for turn in turns]
    pairs = zip(this, base, strict=True) if metric.startswith("rate") else zip(base, this, strict=True)
    by_turn = [high / low if low else 1.0 for high, low in pairs]
    return Ratio(figure, metric, statistics.median(base), statistics.median(this), by_turn, is_noisy)
