"""The report as one HTML page that needs nothing else: figures, charts, and the intervals in detail. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from quiver_spark.jobs.latency.figures import Cell, Report, time_text
from quiver_spark.jobs.latency.histogram import Percentiles
from quiver_spark.jobs.latency.lines import DARK, LIGHT, TITLES, Panel, drawn_groups, left_out, panels
from quiver_spark.jobs.latency.scale import shown_ms
from quiver_spark.jobs.latency.svg import chart_svg

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --faint: #6b7280; --grid: #e5e7eb; --card: #fff; --back: #f8fafc;
  --bad: #b91c1c; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --faint: #9ca3af; --grid: #334155; --card: #1e293b;
  --back: #0f172a; --bad: #fca5a5; DARK } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem; max-width: 84rem; background: var(--back); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.5rem; } h2 { margin: 2rem 0 .6rem; font-size: 1.1rem; overflow-wrap: anywhere; }
p { margin: .25rem 0; color: var(--faint); }
.card { background: var(--card); border: 1px solid var(--grid); border-radius: .6rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: .8rem; }
figure { margin: 0; padding: .7rem .7rem .3rem; } figcaption { font-weight: 600; }
svg { display: block; width: 100%; height: auto; } .mark { fill: var(--faint); font-size: 12px; }
.grid { stroke: var(--grid); } .hidden { fill: transparent; }
polyline { fill: none; stroke-width: 2; } .p99 { stroke-dasharray: 5 3; stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: .9rem 0 0; padding: 0; list-style: none; }
.legend svg { display: inline-block; width: 1.9rem; height: .7rem; vertical-align: middle; margin-right: .4rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
table { font-size: .87rem; }
th, td { padding: .35rem .5rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--grid); }
thead th { border-top: 0; color: var(--faint); font-weight: 600; } thead tr:first-child th { text-align: center; }
.name { text-align: left; } tbody tr:hover { background: var(--back); } .bad { color: var(--bad); font-weight: 600; }
details { margin-top: 1.2rem; } summary { cursor: pointer; padding: .3rem 0; color: var(--faint); }
"""
_SHOWN = ("p50", "p90", "p99", "p999", "max")
_HEADINGS = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9", "max": "max"}


def report_page(report: Report) -> str:
    first, last = (
        time_text(at)[:16].replace("T", " ") for at in (report.first_ms, report.last_ms + report.interval_ms)
    )
    rows = panels(report)
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Delivery latency</title><style>{_style()}</style></head><body>",
            f"<h1>Delivery latency</h1><p>{first} to {last} UTC</p>",
            _legend(report),
            *(part for row in rows for part in _charts(row, report)),
            f"<h2>All {report.interval}s</h2>",
            _table(report.totals),
            f"<details><summary>Every {report.interval} ({len(report.intervals)} rows)</summary>",
            _table(report.intervals, report.interval),
            "</details><p>Messages are counted when they were delivered, acknowledged or given up. Percentiles are"
            f" exact up to 100 ms and within 1 % above, maxima are exact. {escape(left_out(report))}</p>",
            "</body></html>\n",
        )
    )


def _style() -> str:
    light, dark = (" ".join(f"--c{n}: {color};" for n, color in enumerate(colors)) for colors in (LIGHT, DARK))
    kinds = "".join(
        f"polyline.c{n}, line.c{n}, circle.c{n} {{ stroke: var(--c{n}); }} circle.c{n} {{ fill: var(--c{n}); }}\n"
        for n in range(len(LIGHT))
    )
    rings = "circle.p99 { fill: var(--card); stroke-dasharray: none; } circle.p50 { stroke-width: 0; }\n"
    return _STYLE.replace("LIGHT", light).replace("DARK", dark) + kinds + rings


def _legend(report: Report) -> str:
    groups = [
        f'<li><svg viewBox="0 0 30 10"><line class="c{n}" x1="0" x2="30" y1="5" y2="5" stroke-width="3"/></svg>'
        f"{escape(group)}</li>"
        for n, group in enumerate(drawn_groups(report))
    ]
    styles = [
        f'<li><svg viewBox="0 0 30 10"><line class="{name}" x1="0" x2="30" y1="5" y2="5" stroke="currentColor"'
        f' stroke-width="2"/></svg>{said}</li>'
        for name, said in (("p50", "median"), ("p99", "99th percentile"))
    ]
    return f'<ul class="legend">{"".join((*groups, *styles))}</ul>'


def _charts(row: Sequence[Panel], report: Report) -> Iterator[str]:
    values = [value for panel in row for value in panel.values]
    yield f'<h2>{escape(row[0].topic)}</h2><div class="charts">'
    for panel in row:
        svg = chart_svg(panel, report, values)
        yield f'<figure class="card"><figcaption>{TITLES[panel.measure]}</figcaption>{svg}</figure>'
    yield "</div>"


def _table(cells: Sequence[Cell], interval: str | None = None) -> str:
    names = ["topic", "group", *([interval] if interval else [])]
    counts = ["acked", "redelivered", "dead"]
    heads = [
        "<tr>" + f'<th colspan="{len(names)}"></th><th colspan="{len(counts)}">messages</th>',
        *(f'<th colspan="{len(_SHOWN)}">{title}</th>' for title in TITLES.values()),
        "</tr><tr>",
        *(f'<th class="name">{name}</th>' for name in names),
        *(f"<th>{name}</th>" for name in counts),
        *(f"<th>{_HEADINGS[name]}</th>" for _ in TITLES for name in _SHOWN),
        "</tr>",
    ]
    body = "".join(f"<tr>{''.join(_row(cell, with_time=interval is not None))}</tr>" for cell in cells)
    return f'<div class="card scroll"><table><thead>{"".join(heads)}</thead><tbody>{body}</tbody></table></div>'


def _row(cell: Cell, *, with_time: bool) -> Iterator[str]:
    for name in (cell.topic, cell.group):
        yield f'<td class="name">{escape(name)}</td>'
    if with_time:
        yield f'<td class="name">{(cell.time or "")[:16].replace("T", " ")}</td>'
    yield f"<td>{cell.counters['acks']:,}</td>"
    for name in ("redeliveries", "dead_letters"):
        count = cell.counters[name]
        mark = ' class="bad"' if count and name == "dead_letters" else ""
        yield f"<td{mark}>{count:,}</td>"
    for measure in TITLES:
        yield from _figures(cell.measures[measure])


def _figures(found: Percentiles) -> Iterator[str]:
    for name in _SHOWN:
        yield f"<td>{shown_ms(getattr(found, name)) if found.count else '-'}</td>"
