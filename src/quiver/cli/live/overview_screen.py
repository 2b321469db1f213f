"""`quiver top` as text: the broker at a glance, the busiest topics, the groups with the most left to do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quiver.cli.formats.output import human_bytes
from quiver.cli.live.overview_feed import Look
from quiver.model.times import format_duration

if TYPE_CHECKING:
    from quiver.protocol.group_messages import GroupSummary

SORTS = {"p": "published_per_second", "r": "read_per_second", "s": "size_bytes", "n": "topic"}
HELP = "q quit   space pause   sort topics by  p published  r read  s size  n name"
_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_POINTS = 60
_SHOWN_GROUPS = 10
_SHOWN_PROBLEMS = 5


class OverviewScreen:
    """What the user chose, and how a look is drawn."""

    def __init__(self) -> None:
        self.sort = SORTS["p"]
        self.is_paused = False
        self.is_ended = False

    def press(self, keys: str) -> None:
        for key in keys:
            if key in SORTS:
                self.sort = SORTS[key]
            elif key == " ":
                self.is_paused = not self.is_paused
            elif key in ("q", "Q", "\x1b"):
                self.is_ended = True

    def render(self, look: Look, *, is_live: bool = True) -> RenderableType:
        parts: list[RenderableType] = []
        if look.problem is not None:
            parts.append(Text(f"{look.problem}; trying again", style="bold red"))
        if look.overview:
            parts += [*self._facts(look.overview), Text(), self._topics(look.overview)]
        if look.groups:
            parts += [Text(), _groups(look.groups)]
        if is_live:
            parts += [Text(), Text(f"PAUSED   {HELP}" if self.is_paused else HELP, style="dim")]
        return Group(*parts)

    def _facts(self, overview: dict[str, Any]) -> list[Text]:
        rates, disk = overview["rates"], overview["disk"]
        up = format_duration(int(overview["uptime_seconds"]) * 1000)
        head = Text(
            f"quiver {overview['version']}  node {overview['node_id']}  up {up}  {overview['time']}  ", "bold"
        )
        is_ready = overview["is_ready"]
        head.append("ready" if is_ready else "NOT READY", "bold green" if is_ready else "bold red")
        lines = [
            head,
            Text(
                f"published {_rate(rates['published_messages'])}  {_bytes_rate(rates['published_bytes'])}   "
                f"read {_rate(rates['read_messages'])}  {_bytes_rate(rates['read_bytes'])}   "
                f"publish p99 {overview['publish_p99_ms']:.1f} ms"
            ),
            Text(
                f"delivered {_rate(rates['delivered'])}   acked {_rate(rates['acked'])}   "
                f"nacked {_rate(rates['nacked'])}   dead {_rate(rates['dead'])}"
            ),
            Text(
                f"topics {overview['topics']:,}   groups {overview['groups']:,}   "
                f"connections {overview['connections']:,}   lag {overview['lag_messages']:,}   "
                f"dead letters {overview['dead_letters']:,}   delayed {overview['delayed']:,}   "
                f"transactions {overview['open_transactions']:,}"
            ),
            Text(
                f"disk {human_bytes(disk['free_bytes'])} of {human_bytes(disk['total_bytes'])} free, "
                f"logs {human_bytes(disk['log_bytes'])}   memory {human_bytes(overview['memory_bytes'])}   "
                f"loop lag {overview['loop_lag_ms']:.1f} ms"
            ),
        ]
        if points := overview.get("history", {}).get("published_messages"):
            lines.append(Text(f"published {sparkline(points)}", style="cyan"))
        lines += [Text(f"! {problem}", style="red") for problem in overview["problems"][:_SHOWN_PROBLEMS]]
        return lines

    def _topics(self, overview: dict[str, Any]) -> Table:
        table = _table("TOPIC", "PUBLISHED/S", "READ/S", "SIZE")
        is_name = self.sort == SORTS["n"]
        for row in sorted(overview["top_topics"], key=lambda row: row[self.sort], reverse=not is_name):
            published, read = row["published_per_second"], row["read_per_second"]
            table.add_row(Text(row["topic"]), f"{published:,.0f}", f"{read:,.0f}", human_bytes(row["size_bytes"]))
        return table


def _groups(groups: "Sequence[GroupSummary]") -> Table:
    table = _table("GROUP", "KIND", "MEMBERS", "LAG", "LEASED", "RETRYING")
    for group in sorted(groups, key=lambda group: (-group.lag, group.id))[:_SHOWN_GROUPS]:
        counts = (group.members, group.lag, group.leased, group.retrying)
        table.add_row(Text(group.id), group.kind, *(f"{count:,}" for count in counts))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="left" if name == "KIND" else "right", no_wrap=True)
    return table


def sparkline(points: Sequence[float]) -> str:
    """The last points as bars; the highest is full."""
    shown = points[-_POINTS:]
    top = max(shown, default=0) or 1
    return "".join(_BARS[min(len(_BARS) - 1, int(point / top * len(_BARS)))] for point in shown)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s"


def _bytes_rate(per_second: float) -> str:
    return f"{human_bytes(int(per_second))}/s"
