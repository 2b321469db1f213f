"""Dead letters on the command line: one line each, or in full."""

from typing import TYPE_CHECKING, Any

from quiver.cli.formats.message_format import Row, to_object
from quiver.model.priority import NAMES
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.model.dead_letter import DeadLetter

_ERROR_LENGTH = 60


def to_row(dead_letter: "DeadLetter") -> dict[str, Any]:
    """A dead letter in a table: what fits on a line."""
    original, error = dead_letter.original, dead_letter.last_error
    return {
        "id": str(dead_letter.id),
        "died_at": format_time(dead_letter.died_at_ms),
        "reason": dead_letter.reason or None,
        "group": dead_letter.group or None,
        "attempts": dead_letter.attempts,
        "original": original and f"{original.topic}-{original.partition}@{original.offset}",
        "key": None if dead_letter.key is None else dead_letter.key.decode(errors="replace"),
        "last_error": (error if len(error) <= _ERROR_LENGTH else error[: _ERROR_LENGTH - 2] + "..") or None,
    }


def to_document(dead_letter: "DeadLetter") -> dict[str, Any]:
    """A dead letter with the fields of the HTTP response."""
    row = Row(
        topic="",
        partition=dead_letter.partition,
        offset=dead_letter.offset,
        timestamp_ms=dead_letter.timestamp_ms,
        key=dead_letter.key,
        value=dead_letter.value,
        headers=dead_letter.headers,
        priority=NAMES[dead_letter.priority],
    )
    shown = to_object(row)
    del shown["topic"]
    return {
        "id": str(dead_letter.id),
        **shown,
        "died_at": format_time(dead_letter.died_at_ms),
        "reason": dead_letter.reason or None,
        "last_error": dead_letter.last_error or None,
        "attempts": dead_letter.attempts,
        "group": dead_letter.group or None,
        "original": _original(dead_letter),
    }


def _original(dead_letter: "DeadLetter") -> dict[str, Any] | None:
    original = dead_letter.original
    if original is None:
        return None
    return {
        "topic": original.topic,
        "partition": original.partition,
        "offset": original.offset,
        "appended_at": None if original.appended_at_ms is None else format_time(original.appended_at_ms),
        "first_delivered": None if original.first_delivered_ms is None else format_time(original.first_delivered_ms),
    }
