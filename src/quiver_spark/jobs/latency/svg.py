"""Charts of a report as SVG, inside a page whose style has the colours. Pure."""

from collections.abc import Iterator
from html import escape

from quiver_spark.jobs.latency.figures import Report, time_text
from quiver_spark.jobs.latency.lines import TITLES, Line, Panel
from quiver_spark.jobs.latency.scale import (
    has_dots,
    height,
    latency_marks,
    latency_range,
    shown_ms,
    time_marks,
    unbroken_runs,
)

_WIDTH, _HEIGHT = 400, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 12, 40


class _Frame:
    """Where things are in a chart."""

    def __init__(self, report: Report, low: float, high: float) -> None:
        self.low, self.high = low, high
        self._first = report.first_ms - report.interval_ms / 2
        self._span = report.last_ms - report.first_ms + report.interval_ms

    def x(self, at_ms: float) -> float:
        return round(_LEFT + (at_ms - self._first) / self._span * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        room = _HEIGHT - _TOP - _BOTTOM
        return round(_TOP + (1 - height(value, self.low, self.high)) * room, 1)


def chart_svg(panel: Panel, report: Report, values: list[int]) -> str:
    """One panel; `values` are those that its axis is made for."""
    frame = _Frame(report, *latency_range(values))
    parts = [
        *_axes(frame, report),
        *(part for line in panel.lines for part in _line(frame, line, report.interval_ms)),
    ]
    if not panel.lines:
        parts.append(f'<text class="mark" x="{_WIDTH / 2}" y="{_HEIGHT / 2}" text-anchor="middle">nothing</text>')
    label = escape(f"{panel.topic}: {TITLES[panel.measure]} by {report.interval}", quote=True)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axes(frame: _Frame, report: Report) -> Iterator[str]:
    for mark in latency_marks(frame.low, frame.high):
        y = frame.y(mark.at)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="mark" x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{mark.label}</text>'
    for mark in time_marks(report.first_ms, report.last_ms, 5, report.interval_ms):
        x = frame.x(mark.at)
        for number, text in enumerate(reversed(mark.label.split("\n"))):
            y = _HEIGHT - _BOTTOM + 17 + 14 * number
            yield f'<text class="mark" x="{x}" y="{y}" text-anchor="middle">{text}</text>'


def _line(frame: _Frame, line: Line, interval_ms: int) -> Iterator[str]:
    for values, name, said in ((line.p99, "p99", "99th percentile"), (line.p50, "p50", "median")):
        for start, end in unbroken_runs(line.times, interval_ms):
            points = list(zip(line.times[start:end], values[start:end], strict=True))
            if len(points) > 1:
                path = " ".join(f"{frame.x(at)},{frame.y(value)}" for at, value in points)
                yield f'<polyline class="{name} c{line.color}" points="{path}"/>'
            kind = f"{name} c{line.color}" if has_dots(line.times, start, end) else "hidden"
            for at, value in points:
                title = escape(f"{line.group}, {time_text(at)[:16]}: {said} {shown_ms(value)}")
                place = f'cx="{frame.x(at)}" cy="{frame.y(value)}"'
                yield f'<circle class="{kind}" {place} r="3.5"><title>{title}</title></circle>'
