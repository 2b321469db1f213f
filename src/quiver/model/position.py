"""Where a reader starts or stops: earliest, latest, an offset or a time."""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import HIGHEST, shown, whole_number
from quiver.model.times import parse_duration_ms, parse_time_ms


class Position(msgspec.Struct, frozen=True, array_like=True):
    kind: Literal["earliest", "latest", "offset", "time"]
    value: int = 0
    """The offset, or epoch milliseconds."""


EARLIEST = Position("earliest")
LATEST = Position("latest")


def parse_position(value: object, now_ms: int, what: str = "start") -> Position:
    """`earliest`, `latest`, an offset (int or digits), `-2h` or a negative timedelta (ago), or a time.

    A whole number is always an offset, never epoch milliseconds.
    """
    if isinstance(value, Position):
        return value
    if isinstance(value, datetime):
        return Position("time", parse_time_ms(value, what))
    if isinstance(value, timedelta) and value <= timedelta():
        return Position("time", max(0, now_ms - parse_duration_ms(-value, what)))
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST:
        return Position("offset", value)
    if isinstance(value, str):
        text = value.strip()
        if text in ("earliest", "latest"):
            return EARLIEST if text == "earliest" else LATEST
        if (offset := whole_number(text)) is not None:
            return Position("offset", offset)
        if text.startswith("-"):
            return Position("time", max(0, now_ms - parse_duration_ms(text[1:], what)))
        return Position("time", parse_time_ms(text, what))
    raise InvalidRequest(
        problem=f"{what} {shown(value)} is not earliest, latest, an offset, a time ago such as -2h, or a time"
    )
