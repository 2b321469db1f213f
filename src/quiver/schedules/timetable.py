"""When a schedule fires: at the times of a cron expression in a time zone, or at plain intervals. Pure."""

from datetime import UTC, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSimError

from quiver.model.errors import InvalidRequest
from quiver.model.limits import LONGEST_CRON, LONGEST_INTERVAL_MS, SHORTEST_INTERVAL_MS
from quiver.model.schedule import Schedule
from quiver.model.times import parse_duration_ms
from quiver.schedules.cron import parse_cron

_EVERY = "@every"
_FORM = (
    "it is minute, hour, day of month, month and day of week (*/5 * * * *), optionally with seconds in front, "
    "or @every 30s, @hourly, @daily, @weekly, @monthly, @yearly"
)
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Timetable(Protocol):
    def next_after(self, time_ms: int) -> int | None:
        """The first firing after a time; None if there is none."""
        ...

    def latest(self, time_ms: int) -> int | None:
        """The last firing up to a time; None if that is not known."""
        ...


class Interval:
    """`@every 30s`: 30 seconds after the anchor, 60 seconds, and so on.

    The anchor may be in the future, if the clock was ahead when the schedule was added and is right now. Then times
    before the anchor count too: otherwise nothing would fire until it is reached.
    """

    def __init__(self, anchor_ms: int, interval_ms: int) -> None:
        self._anchor_ms = anchor_ms
        self._interval_ms = interval_ms

    def next_after(self, time_ms: int) -> int:
        passed = (time_ms - self._anchor_ms) // self._interval_ms
        return self._anchor_ms + (passed + 1) * self._interval_ms

    def latest(self, time_ms: int) -> int:
        """The anchor too, although nothing fires then: `due_time` returns nothing before the first that is due."""
        passed = (time_ms - self._anchor_ms) // self._interval_ms
        return self._anchor_ms + passed * self._interval_ms


def coming_times(schedule: Schedule, next_ms: int | None, count: int) -> list[int]:
    """When a schedule fires from its next time on; nothing while it is paused."""
    times = [] if next_ms is None else [next_ms]
    timetable = parse_timetable(schedule.cron, schedule.timezone, schedule.anchor_ms)
    while times and len(times) < count and (following := timetable.next_after(times[-1])) is not None:
        times.append(following)
    return times


def parse_timetable(expression: str, timezone: str, anchor_ms: int) -> Timetable:
    """Raises InvalidRequest with what is wrong with an expression or a time zone."""
    zone = _parse_zone(timezone)
    text = expression.strip()
    if not text or len(text) > LONGEST_CRON:
        raise InvalidRequest(problem=f"a cron expression has 1 to {LONGEST_CRON} characters, such as */5 * * * *")
    if text.split()[0].lower() == _EVERY:
        return Interval(anchor_ms, _parse_interval(text))
    cron = _NICKNAMES.get(text.lower(), text)
    try:
        return parse_cron(cron, zone)
    except (CronSimError, ValueError) as error:
        problem = f"cron {text!r}: {str(error).lower()}; {_FORM}"
        raise InvalidRequest(problem=problem) from None


def due_time(timetable: Timetable, first_ms: int, now_ms: int) -> int:
    """The last firing from `first_ms` to now; it also makes up for those before it."""
    latest = timetable.latest(now_ms)
    return first_ms if latest is None else max(first_ms, latest)


def _parse_interval(text: str) -> int:
    interval_ms = parse_duration_ms(text[len(_EVERY) :].strip(), "interval")
    if not SHORTEST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
        raise InvalidRequest(problem=f"{text!r}: an interval is from {SHORTEST_INTERVAL_MS}ms to 10 years")
    return interval_ms


def _parse_zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidRequest(problem=f"{name[:100]!r} is not a time zone, such as Europe/Berlin or UTC") from None
