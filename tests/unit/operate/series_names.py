"""The series and labels that an expression names, and those that the broker has."""

import re

from quiver.metrics.series import ALL

_WORD = re.compile(r"\b((?:quiver|process)_\w+)")
_LABELS = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right) \(([^)]*)\)")
_MATCHERS = re.compile(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)")
OF_PROMETHEUS = {"instance", "job", "le"}
"""Labels that a series has besides its own."""


def known_series() -> dict[str, set[str]]:
    """Every name that a scrape has, with its labels."""
    known: dict[str, set[str]] = {}
    for series in ALL:
        endings = ("_bucket", "_sum", "_count") if series.kind == "histogram" else ("",)
        known |= {f"{series.name}{ending}": set(series.labels) for ending in endings}
    return known


def named_series(expression: str) -> set[str]:
    return set(_WORD.findall(expression))


def named_labels(expression: str) -> set[str]:
    lists = [name for names in _LABELS.findall(expression) for name in names.replace(" ", "").split(",")]
    return {*lists, *_MATCHERS.findall(expression)} - OF_PROMETHEUS


def check_expression(expression: str) -> None:
    """Names only series that there are, and of these only labels that one of them has."""
    known, names = known_series(), named_series(expression)
    assert names <= known.keys(), f"{names - known.keys()} in {expression}"
    labels = set().union(*(known[name] for name in names)) if names else {"job"}
    assert named_labels(expression) <= labels, f"{named_labels(expression) - labels} in {expression}"
