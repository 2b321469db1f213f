"""Numbers as text for monitoring systems: the Prometheus text format, and OpenMetrics with exemplars.

Whoever owns numbers puts them into a `Collected`, which is data: those of several processes are added up. The text is
made from it when somebody asks, and only here.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from quiver.telemetry.histogram import Exemplar, Histogram

PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram", "info"]
Labels = tuple[str, ...]
"""Values, in the order of the names of the series."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_LINES_AT_ONCE = 500
_MOST_TEXTS = 20_000


class Series(NamedTuple):
    """Counters end with _total, and information with _info."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    """A sentence without its full stop."""
    advice: str = ""
    """What to do when it is high."""
    added_up: bool = True
    """Over processes; False: the highest value counts."""


class HistogramValue(msgspec.Struct, array_like=True):
    bounds: Sequence[float]
    counts: list[int]
    sum: float
    exemplars: dict[int, Exemplar] = {}
    """By bucket."""


class Collected(msgspec.Struct):
    """The numbers of a process, by series and labels."""

    numbers: dict[str, dict[Labels, float]] = msgspec.field(default_factory=dict)
    histograms: dict[str, dict[Labels, HistogramValue]] = msgspec.field(default_factory=dict)

    def of(self, series: Series) -> dict[Labels, float]:
        """The numbers of a series by their labels: for sources that have very many."""
        return self.numbers.setdefault(series.name, {})

    def set(self, series: Series, value: float, *labels: str) -> None:
        self.numbers.setdefault(series.name, {})[labels] = value

    def add(self, series: Series, value: float, *labels: str) -> None:
        """For values of several owners that share their labels. 0 makes the series visible."""
        try:
            of_series = self.numbers[series.name]
        except KeyError:
            of_series = self.numbers[series.name] = {}
        of_series[labels] = of_series.get(labels, 0) + value

    def raise_to(self, series: Series, value: float, *labels: str) -> None:
        """The highest value of several owners counts."""
        of_series = self.numbers.setdefault(series.name, {})
        of_series[labels] = max(of_series.get(labels, 0), value)

    def observe(self, series: Series, histogram: Histogram, *labels: str) -> None:
        """Histograms of several owners that share their labels are added up."""
        of_series = self.histograms.setdefault(series.name, {})
        new = HistogramValue(histogram.bounds, list(histogram.counts), histogram.sum, dict(histogram.exemplars))
        known = of_series.get(labels)
        of_series[labels] = new if known is None else _joined(known, new)

    def merge(self, other: "Collected", series: Sequence[Series]) -> None:
        """Adds the numbers of another process."""
        for each in series:
            for labels, value in other.numbers.get(each.name, {}).items():
                (self.add if each.added_up else self.raise_to)(each, value, *labels)
            for labels, histogram in other.histograms.get(each.name, {}).items():
                known = self.histograms.setdefault(each.name, {}).get(labels)
                self.histograms[each.name][labels] = histogram if known is None else _joined(known, histogram)


def _joined(one: HistogramValue, other: HistogramValue) -> HistogramValue:
    counts = [ours + theirs for ours, theirs in zip(one.counts, other.counts, strict=True)]
    return HistogramValue(one.bounds, counts, one.sum + other.sum, one.exemplars | other.exemplars)


class LabelTexts(dict[Labels, str]):
    """Labels with these names as text: most occur in several series, and in every scrape."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __missing__(self, labels: Labels) -> str:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        text = self[labels] = _shown(self._names, labels)
        return text


class Exposition:
    """Makes the text of scrapes, one after the other."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, ...], LabelTexts] = {}

    def lines(self, collected: Collected, series: Sequence[Series], *, open_metrics: bool) -> Iterator[str]:
        """The text, some hundred lines at a time. A series without values is left out."""
        for each in series:
            numbers, histograms = collected.numbers.get(each.name), collected.histograms.get(each.name)
            if not numbers and not histograms:
                continue
            family, kind = each.name, each.kind
            if open_metrics:
                family = family.removesuffix("_total").removesuffix("_info")
            elif kind == "info":
                kind = "gauge"
            yield f"# HELP {family} {each.meaning}.\n# TYPE {family} {kind}\n"
            texts = self._texts.get(each.labels)
            if texts is None:
                texts = self._texts[each.labels] = LabelTexts(each.labels)
            yield from _numbers(each.name, numbers or {}, texts)
            yield from _histograms(each, histograms or {}, texts, with_exemplars=open_metrics)
        if open_metrics:
            yield "# EOF\n"


def _numbers(name: str, numbers: Mapping[Labels, float], texts: LabelTexts) -> Iterator[str]:
    items = list(numbers.items())
    for start in range(0, len(items), _LINES_AT_ONCE):
        yield "".join(
            [
                f"{name}{texts[labels]} {value if type(value) is int else _number(value)}\n"
                for labels, value in items[start : start + _LINES_AT_ONCE]
            ]
        )


def _histograms(
    series: Series, histograms: Mapping[Labels, HistogramValue], texts: LabelTexts, *, with_exemplars: bool
) -> Iterator[str]:
    lines: list[str] = []
    for labels, histogram in histograms.items():
        lines += _buckets(series.name, texts[labels], histogram, with_exemplars=with_exemplars)
        if len(lines) >= _LINES_AT_ONCE:
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


def _buckets(name: str, labels: str, value: HistogramValue, *, with_exemplars: bool) -> Iterator[str]:
    before = f"{labels[:-1]}," if labels else "{"
    start, total = f'{name}_bucket{before}le="', 0
    for place, (count, bound) in enumerate(zip(value.counts, _bounds(tuple(value.bounds)), strict=True)):
        total += count
        exemplar = value.exemplars.get(place) if with_exemplars else None
        if exemplar is None:
            yield f'{start}{bound}"}} {total}\n'
        else:
            trace = f'{{trace_id="{exemplar.trace_id}"}} {exemplar.value} {exemplar.time_ms / 1000}'
            yield f'{start}{bound}"}} {total} # {trace}\n'
    yield f"{name}_sum{labels} {_number(value.sum)}\n{name}_count{labels} {total}\n"


@lru_cache(maxsize=64)
def _bounds(bounds: tuple[float, ...]) -> list[str]:
    return [*map(_number, bounds), "+Inf"]


def _shown(names: tuple[str, ...], values: Labels) -> str:
    if not names:
        return ""
    pairs = ",".join([f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)])
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value if value.isalnum() else value.translate(_ESCAPES)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
