"""Which lines the charts of a report have: per topic and measure two for each group, over time. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from quiver_spark.jobs.latency.figures import Report

TITLES = {
    "publish_to_delivery": "publish to first delivery",
    "delivery_to_ack": "delivery to ack",
    "publish_to_ack": "publish to ack",
}
"""The titles of measures."""
MOST_GROUPS = 6
"""More lines cannot be told apart; the table has all groups."""
MOST_TOPICS = 12
LIGHT = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2")
DARK = ("#60a5fa", "#fbbf24", "#34d399", "#f472b6", "#a78bfa", "#22d3ee")


class Line(NamedTuple):
    """The lines of one group, with a value for each interval that has messages."""

    group: str
    color: int
    """A place in LIGHT and DARK, the same for a group everywhere."""
    times: Sequence[int]
    """When the intervals begin."""
    p50: Sequence[int]
    p99: Sequence[int]


class Panel(NamedTuple):
    topic: str
    measure: str
    lines: Sequence[Line]

    @property
    def values(self) -> list[int]:
        return [value for line in self.lines for value in (*line.p50, *line.p99)]


def drawn_groups(report: Report) -> list[str]:
    return report.groups[:MOST_GROUPS]


def panels(report: Report) -> list[list[Panel]]:
    """For each topic those of all measures."""
    groups = drawn_groups(report)
    found = []
    for topic in report.topics[:MOST_TOPICS]:
        cells = {group: report.of(topic, group) for group in groups}
        row = []
        for measure in TITLES:
            lines = []
            for color, group in enumerate(groups):
                points = [(cell.at_ms or 0, cell.measures[measure]) for cell in cells[group]]
                points = [point for point in points if point[1].count]
                if points:
                    times, figures = zip(*points, strict=True)
                    lines.append(Line(group, color, times, [f.p50 for f in figures], [f.p99 for f in figures]))
            row.append(Panel(topic, measure, lines))
        found.append(row)
    return found


def left_out(report: Report) -> str:
    """What the charts do not show; empty when they show everything."""
    parts = []
    if len(report.groups) > MOST_GROUPS:
        parts.append(f"{len(report.groups) - MOST_GROUPS} more groups")
    if len(report.topics) > MOST_TOPICS:
        parts.append(f"{len(report.topics) - MOST_TOPICS} more topics")
    return f"The table has {' and '.join(parts)}." if parts else ""
