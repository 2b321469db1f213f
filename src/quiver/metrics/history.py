"""The last minutes of a few numbers, for charts."""

from collections import deque
from collections.abc import Mapping


class History:
    """At most `points` points; the oldest is forgotten first. Every point has the same names."""

    def __init__(self, points: int) -> None:
        self._points: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=points)

    def add(self, time_ms: int, values: Mapping[str, float]) -> None:
        self._points.append((time_ms, values))

    def columns(self) -> dict[str, list[float]]:
        """`seconds` has the time of each point in epoch seconds; the others its values."""
        names = self._points[-1][1] if self._points else ()
        columns: dict[str, list[float]] = {"seconds": [round(time_ms / 1000, 1) for time_ms, _ in self._points]}
        return columns | {name: [values[name] for _, values in self._points] for name in names}
