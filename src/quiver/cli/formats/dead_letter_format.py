"""Dead letters on the command line: one line each, or in full."""

from typing import TYPE_CHECKING, Any

from quiver.cli.formats.message_format import Row, to_object
from quiver.model.priority import NAMES
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.model.dead_letter import DeadLetter

_ERROR_LENGTH = 60


def to_row(letter: "DeadLetter") -> dict[str, Any]:
    """A dead letter in a table: what fits on a line."""
    original, error = letter.original, letter.last_error
    return {
        "id": str(letter.id),
        "died_at": format_time(letter.died_at_ms),
        "reason": letter.reason or None,
        "group": letter.group or None,
        "attempts": letter.attempts,
        "original": original and f"{original.topic}-{original.partition}@{original.offset}",
        "key": None if letter.key is None else letter.key.decode(errors="replace"),
        "last_error": (error if len(error) <= _ERROR_LENGTH else error[: _ERROR_LENGTH - 2] + "..") or None,
    }


def to_document(letter: "DeadLetter") -> dict[str, Any]:
    """A dead letter with the fields of the HTTP response."""
    row = Row(
        topic="",
        partition=letter.partition,
        offset=letter.offset,
        timestamp_ms=letter.timestamp_ms,
        key=letter.key,
        value=letter.value,
        headers=letter.headers,
        priority=NAMES[letter.priority],
    )
    shown = to_object(row)
    del shown["topic"]
    return {
        "id": str(letter.id),
        **shown,
        "died_at": format_time(letter.died_at_ms),
        "reason": letter.reason or None,
        "last_error": letter.last_error or None,
        "attempts": letter.attempts,
        "group": letter.group or None,
        "original": _original(letter),
    }


def _original(letter: "DeadLetter") -> dict[str, Any] | None:
    original = letter.original
    if original is None:
        return None
    return {
        "topic": original.topic,
        "partition": original.partition,
        "offset": original.offset,
        "appended_at": None if original.appended_at_ms is None else format_time(original.appended_at_ms),
        "first_delivered": None if original.first_delivered_ms is None else format_time(original.first_delivered_ms),
    }
