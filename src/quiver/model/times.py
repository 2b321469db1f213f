"""Durations and times as users write them.

Durations are strings such as `500ms`, `30s`, `1h30m`, `7d`, numbers of seconds, or `timedelta`. Times are RFC 3339,
epoch milliseconds or `datetime`, and are shown as RFC 3339 in UTC. Text without a zone is UTC, so the broker
and every client agree; a `datetime` without a zone is local time, as everywhere in Python.
"""

import math
import re
from datetime import UTC, datetime, timedelta

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import shown, whole_number

Duration = str | float | timedelta
"""As users write it; a number is seconds."""
Time = str | int | datetime
"""As users write it; a number is epoch milliseconds."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_MAX_MS = 2**53
_MAX_TEXT = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME_MS = 253_402_300_799_999  # the last millisecond of the year 9999


def parse_duration_ms(value: object, what: str = "duration") -> int:
    """Milliseconds of `30s`, `1h30m`, `500ms`, a number of seconds or a timedelta; never negative."""
    if isinstance(value, timedelta):
        return _in_range(value / timedelta(milliseconds=1), what, str(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _seconds_to_ms(float(value), what, value)
    if isinstance(value, str) and len(value) <= _MAX_TEXT:  # the search for parts takes time quadratic in the length
        text = value.strip().lower()
        parts = _PART.findall(text)
        if parts and "".join(n + unit for n, unit in parts) == text:
            return _in_range(sum(float(n) * _UNITS_MS[unit] for n, unit in parts), what, value)
        try:
            return _seconds_to_ms(float(text), what, value)
        except ValueError:
            pass
    raise InvalidRequest(problem=f"{what} {shown(value)} is not a duration such as 500ms, 30s, 1h30m or 7d")


def parse_seconds(value: object, what: str = "timeout") -> float:
    """The same in seconds."""
    return parse_duration_ms(value, what) / 1000


def wait_seconds(value: Duration | None) -> float | None:
    """How long a call may wait; None: forever. A negative number, such as what is left of a time, is zero."""
    if value is None or isinstance(value, float | int):
        return value if value is None else max(0.0, value)
    return parse_seconds(value)


def _seconds_to_ms(seconds: float, what: str, given: object) -> int:
    return _in_range(seconds * 1000, what, given)


def _in_range(ms: float, what: str, given: object) -> int:
    if not math.isfinite(ms) or ms < 0 or ms > _MAX_MS:
        raise InvalidRequest(problem=f"{what} {shown(given)} is out of range: it must be zero or more")
    return round(ms)


def format_duration(ms: int) -> str:
    """The shortest exact way to write a duration: 90_000 is `1m30s`."""
    if ms == 0:
        return "0s"
    text, rest = "", ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            text += f"{count}{unit}"
    return text


def parse_time_ms(value: object, what: str = "time") -> int:
    """Epoch milliseconds of an RFC 3339 text, of epoch milliseconds or of a datetime."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        if 0 <= value <= _MAX_TIME_MS:
            return int(value)
    elif isinstance(value, datetime):
        try:
            return parse_time_ms(_since_epoch_ms(value), what)
        except (OverflowError, OSError, ValueError):  # a local time at the very edge of the calendar
            pass
    elif isinstance(value, str):
        text = value.strip()
        number = whole_number(text)
        if number is not None and len(text) > 4:
            return parse_time_ms(number, what)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return parse_time_ms(_since_epoch_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), what)
    raise InvalidRequest(
        problem=f"{what} {shown(value)} is neither RFC 3339 (2026-01-31T12:00:00Z) nor epoch milliseconds"
    )


def _since_epoch_ms(moment: datetime) -> int:
    """Whole milliseconds, in integers: a float cannot hold every one of them. Without a zone it is local time."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def format_time(ms: int) -> str:
    """RFC 3339 in UTC, with milliseconds; a time outside the calendar is shown as its number."""
    if not 0 <= ms <= _MAX_TIME_MS:
        return str(ms)
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
