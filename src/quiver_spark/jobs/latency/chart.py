"""The chart of a report as a PNG. matplotlib is loaded when one is drawn."""

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quiver_spark.jobs.latency.figures import Report, time_text
from quiver_spark.jobs.latency.lines import LIGHT, TITLES, Line, Panel, drawn_groups, left_out, panels
from quiver_spark.jobs.latency.scale import (
    LOWEST_MS,
    has_dots,
    latency_marks,
    latency_range,
    time_marks,
    unbroken_runs,
)

DPI = 120
WIDTH_INCHES = 14.0
_ROW_INCHES = 3.3
_HEAD_INCHES = 0.9
_LONGEST_NAME, _NAMES_IN_A_ROW = 24, 60
_INK, _FAINT, _GRID = "#1f2937", "#6b7280", "#e5e7eb"
_STYLE: Any = {
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _FAINT,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
}


def chart_png(report: Report) -> bytes:
    """A row of panels for each topic: the medians solid, the 99th percentiles dashed, a colour for each group."""
    with _quietly():
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        rows = panels(report)
        with rc_context(_STYLE):
            height = _HEAD_INCHES + _ROW_INCHES * len(rows)
            figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, facecolor="white")
            FigureCanvasAgg(figure)
            axes = figure.subplots(len(rows), len(TITLES), squeeze=False)
            for number, row in enumerate(rows):
                _draw_row(axes[number], row, report, is_first=number == 0)
            _draw_head(figure, report, height)
            figure.tight_layout(rect=(0, 0, 1, 1 - _HEAD_INCHES / height), h_pad=1.6, w_pad=2.0)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png")
            return buffer.getvalue()


@contextmanager
def _quietly() -> Iterator[None]:
    """Without words about caches of fonts."""
    logger = logging.getLogger("matplotlib")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _draw_row(axes: Sequence[Any], row: Sequence[Panel], report: Report, *, is_first: bool) -> None:
    low, high = latency_range([value for panel in row for value in panel.values])
    for axis, panel in zip(axes, row, strict=True):
        for line in panel.lines:
            _draw_line(axis, line, report.interval_ms)
        axis.set_yscale("log")
        axis.set_ylim(low, high)
        _set_marks(axis.yaxis, latency_marks(low, high))
        axis.set_xlim(report.first_ms - report.interval_ms / 2, report.last_ms + report.interval_ms / 2)
        _set_marks(axis.xaxis, time_marks(report.first_ms, report.last_ms, 6, report.interval_ms))
        axis.minorticks_off()
        axis.grid(axis="y", color=_GRID, linewidth=0.8)
        axis.tick_params(length=0, pad=8)
        axis.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
        if not panel.lines:
            axis.text(0.5, 0.5, "nothing in this time", transform=axis.transAxes, ha="center", color=_FAINT)
        axis.set_title(TITLES[panel.measure], loc="left", fontsize=10, color=_FAINT if not is_first else _INK)
    axes[0].annotate(
        row[0].topic, (0, 1), xytext=(0, 22), xycoords="axes fraction", textcoords="offset points", weight="bold"
    )


def _draw_line(axis: Any, line: Line, interval_ms: int) -> None:
    color = LIGHT[line.color]
    for values, style, width, inside in ((line.p50, "-", 2.0, color), (line.p99, (0, (4, 2)), 1.4, "white")):
        for start, end in unbroken_runs(line.times, interval_ms):
            drawn = [max(LOWEST_MS, value) for value in values[start:end]]
            marker = "o" if has_dots(line.times, start, end) else ""
            axis.plot(
                line.times[start:end],
                drawn,
                linestyle=style,
                linewidth=width,
                color=color,
                marker=marker,
                markersize=4.5,
                markerfacecolor=inside,
            )


def _set_marks(axis: Any, marks: Sequence[tuple[float, str]]) -> None:
    axis.set_ticks([mark[0] for mark in marks], labels=[mark[1] for mark in marks])


def _draw_head(figure: Any, report: Report, height: float) -> None:
    from matplotlib.lines import Line2D

    first, last = time_text(report.first_ms)[:16], time_text(report.last_ms + report.interval_ms)[:16]
    said = f"{first.replace('T', ' ')} to {last.replace('T', ' ')} UTC, by {report.interval}. {left_out(report)}"
    figure.text(0.012, 1 - 0.3 / height, "Delivery latency", fontsize=16, weight="bold", va="center")
    figure.text(0.012, 1 - 0.62 / height, said, color=_FAINT, va="center")
    names = [_short(name) for name in drawn_groups(report)]
    groups = [Line2D([], [], color=LIGHT[n], linewidth=2, label=name) for n, name in enumerate(names)]
    styles = [
        Line2D([], [], color=_FAINT, linewidth=2, label="median"),
        Line2D([], [], color=_FAINT, linewidth=1.4, linestyle=(0, (4, 2)), label="99th percentile"),
    ]
    figure.legend(
        handles=[*groups, *styles],
        loc="upper right",
        bbox_to_anchor=(0.995, 1 - 0.14 / height),
        ncols=len(names) + len(styles) if sum(map(len, names)) <= _NAMES_IN_A_ROW else 4,
        frameon=False,
        handlelength=2.2,
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
