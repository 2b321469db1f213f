"""Axes of charts of latency: logarithmic milliseconds upwards, time in UTC to the right. Pure."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from quiver_spark.jobs.latency.samples import HOUR_MS

LOWEST_MS = 0.5
"""Where 0 ms is drawn: a logarithm has no place for it."""
_MINUTE, _DAY = 60_000, 24 * HOUR_MS
_MARKS = (1, 10, 100, 1_000, 10_000, _MINUTE, 10 * _MINUTE, HOUR_MS, 10 * HOUR_MS, 4 * _DAY, 40 * _DAY, 365 * _DAY)
_UNITS = ((_MINUTE, 1_000, "s"), (HOUR_MS, _MINUTE, "min"), (_DAY, HOUR_MS, "h"))
_MOST_DOTS = 24
_STEPS = (
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12, 24, 48, 7 * 24, 28 * 24)),
)
"""How far marks are from each other."""


class Mark(NamedTuple):
    at: float
    label: str


def shown_ms(value: float) -> str:
    """A duration for people, with two or three digits that count."""
    if value < 1_000:
        return f"{value:.0f} ms"
    size, unit = next(((size, unit) for end, size, unit in _UNITS if value < end), (_DAY, "d"))
    return f"{_digits(value / size)} {unit}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def latency_range(values: Sequence[float]) -> tuple[float, float]:
    """From the mark below all values to the one above them."""
    drawn = [max(LOWEST_MS, value) for value in values] or [1.0]
    low = max((mark for mark in (LOWEST_MS, *_MARKS) if mark <= min(drawn)), default=LOWEST_MS)
    high = min((mark for mark in _MARKS if mark > max(drawn)), default=max(drawn) * 2)
    return low, high


def latency_marks(low: float, high: float) -> list[Mark]:
    marks = [Mark(mark, shown_ms(mark)) for mark in _MARKS if low <= mark <= high]
    return [Mark(LOWEST_MS, "0 ms"), *marks] if low == LOWEST_MS else marks


def height(value: float, low: float, high: float) -> float:
    """Where a latency is between the ends of the axis, from 0 to 1."""
    return (math.log(max(LOWEST_MS, value)) - math.log(low)) / (math.log(high) - math.log(low))


def time_marks(first_ms: int, last_ms: int, most: int, interval_ms: int = HOUR_MS) -> list[Mark]:
    """Some intervals between two, with the day where it begins; at most so many, unless four weeks are too close."""
    span_ms = last_ms - first_ms + interval_ms
    steps = [step for step in _STEPS if step >= interval_ms]
    step = next((step for step in steps if span_ms / step <= most), steps[-1])
    begin = -(-first_ms // step) * step
    marks = [Mark(at, _time_label(at, step)) for at in range(begin, last_ms + 1, step)] or [
        Mark(first_ms, _time_label(first_ms, HOUR_MS))
    ]
    if step < _DAY and not any(mark.at % _DAY == 0 for mark in marks):
        marks[0] = Mark(marks[0].at, f"{_text(marks[0].at, '%d %b')}\n{marks[0].label}")
    return marks


def _time_label(at_ms: int, step: int) -> str:
    return _text(at_ms, "%d %b" if at_ms % _DAY == 0 or step >= _DAY else "%H:%M")


def _text(at_ms: float, form: str) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form).removeprefix("0")


def has_dots(times: Sequence[int], start: int, end: int) -> bool:
    """Whether each interval of an unbroken run gets a dot: where there are few of them, or no line shows them."""
    return end - start <= 2 or len(times) <= _MOST_DOTS


def unbroken_runs(times: Sequence[int], interval_ms: int = HOUR_MS) -> list[tuple[int, int]]:
    """Runs of consecutive intervals, half open: a line does not cross those without messages."""
    borders = [0, *(n for n in range(1, len(times)) if times[n] - times[n - 1] > interval_ms), len(times)]
    return [(start, end) for start, end in pairwise(borders) if start < end]
