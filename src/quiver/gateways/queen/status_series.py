"""What happened per minute, hour or day, from the samples that the broker remembers. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

INTERVALS = {"minute": 60, "hour": 3_600, "day": 86_400}


class Point(NamedTuple):
    time_ms: int
    """Where it begins."""
    seconds: float
    """What of it was sampled."""
    published: float
    acked: float
    failed: float
    publish_p99_ms: float
    lag_messages: float


def series(
    columns: Mapping[str, Sequence[float]], interval: int, start_ms: int | None, end_ms: int | None
) -> list[Point]:
    """By interval, the oldest first. Samples have rates per second, which hold since the sample before."""
    times = columns["seconds"]
    found: dict[int, Point] = {}
    for at, seconds in enumerate(times):
        if (start_ms is not None and seconds * 1000 < start_ms) or (end_ms is not None and seconds * 1000 > end_ms):
            continue
        lasted = max(0.001, seconds - times[at - 1]) if at else 1.0
        begin = int(seconds // interval) * interval
        before = found.get(begin, Point(begin * 1000, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        found[begin] = Point(
            before.time_ms,
            before.seconds + lasted,
            before.published + lasted * columns["published_messages"][at],
            before.acked + lasted * columns["acked"][at],
            before.failed + lasted * (columns["nacked"][at] + columns["dead"][at]),
            max(before.publish_p99_ms, columns["publish_p99_ms"][at]),
            columns["lag_messages"][at],
        )
    return list(found.values())
