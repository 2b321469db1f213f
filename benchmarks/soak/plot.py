"""The samples of a run as a picture: one chart above the other, in SVG."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from benchmarks.soak.samples import Sample

WIDTH, HEIGHT, LEFT, GAP = 720, 110, 90, 46
COLOURS = ("#1f6feb", "#d1720f", "#2da44e")

Line = tuple[str, Callable[[Sample], float]]
CHARTS: list[tuple[str, list[Line]]] = [
    ("memory of the broker, MB", [
        ("allocated", lambda sample: sample.memory_bytes / 1e6),
        ("resident", lambda sample: sample.resident_bytes / 1e6),
    ]),
    ("store, MB", [("store", lambda sample: sample.store_bytes / 1e6)]),
    ("rows, thousands", [
        ("live", lambda sample: sample.live_rows / 1e3),
        ("dead", lambda sample: sample.dead_rows / 1e3),
    ]),
    ("open files", [("open files", lambda sample: sample.open_files)]),
]  # fmt: skip


def plot(title: str, samples: Sequence[Sample]) -> str:
    charts = [(name, [(label, _points(samples, of)) for label, of in lines]) for name, lines in CHARTS]
    charts.insert(0, ("messages published per second", [("published", _rates(samples))]))
    charts = [(name, lines) for name, lines in charts if any(value for _, points in lines for _, value in points)]
    parts = [f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>']
    for number, (name, lines) in enumerate(charts):
        parts.append(_chart(name, lines, 50 + number * (HEIGHT + GAP), samples[-1].seconds or 1))
    height = 50 + len(charts) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
        f'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _points(samples: Sequence[Sample], of: Callable[[Sample], float]) -> list[tuple[float, float]]:
    return [(sample.seconds, of(sample)) for sample in samples]


def _rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    return [
        (after.seconds, (after.published - before.published) / (after.seconds - before.seconds))
        for before, after in pairwise(samples)
        if after.seconds > before.seconds and after.published >= before.published  # topics may be deleted
    ]


def _chart(name: str, lines: list[tuple[str, list[tuple[float, float]]]], top: float, seconds: float) -> str:
    highest = max((value for _, points in lines for _, value in points), default=0) * 1.1 or 1
    bottom = top + HEIGHT
    parts = [f'<text x="{LEFT}" y="{top - 6}">{escape(name)}</text>']
    for share in (0, 0.5, 1):
        y = bottom - share * HEIGHT
        parts.append(f'<path d="M{LEFT} {y}h{WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{_shown(highest * share)}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, minutes = LEFT + share * WIDTH, share * seconds / 60
        parts.append(f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{minutes:.3g} min</text>')
    for (label, points), colour in zip(lines, COLOURS, strict=False):
        path = " ".join(
            f"{LEFT + at / seconds * WIDTH:.1f},{bottom - value / highest * HEIGHT:.1f}" for at, value in points
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        number = [each for each, _ in lines].index(label)
        place = LEFT + WIDTH - 100 * (len(lines) - number)
        parts.append(f'<text x="{place}" y="{top - 6}" fill="{colour}">{escape(label)}</text>')
    return "\n".join(parts)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"
