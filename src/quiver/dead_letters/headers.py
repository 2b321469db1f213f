"""Dead letters as they are stored: the settings of their topic, and the headers that say why. Pure."""

from typing import Any, NamedTuple

import msgspec

from quiver.messages.stored_rows import StoredRow
from quiver.model.dead_letter import HEADER_NAMES as NAMES
from quiver.model.dead_letter import HEADER_PREFIX as PREFIX
from quiver.model.dead_letter import DeadLetter, Original
from quiver.model.errors import InvalidRequest
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.times import format_time, parse_time_ms
from quiver.model.topic import Topic
from quiver.queues.state.port import Dead

_ERROR_BYTES = 4096


class DeadLetterOrigin(NamedTuple):
    topic: str
    partition: int
    group: str
    at_ms: int
    dead: Dead


def dead_letter_settings(topic: Topic, count: int) -> dict[str, Any]:
    """Dead letters are kept until somebody removes them."""
    return {
        "partitions": count,
        "durability": topic.config.durability,
        "segment_bytes": topic.config.segment_bytes,
        "retention": None,
        "retention_bytes": None,
        "cleanup": "delete",
        "ttl": None,
    }


def to_dead_letter(row: StoredRow, origin: DeadLetterOrigin) -> NewMessage:
    """A message as it is stored in the dead-letter topic: with headers that say where it comes from and why.

    Its time to live ends here, and is kept in a header so that a redrive can start it again.
    """
    message, dead = row.message, origin.dead
    written = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(row.offset),
        "timestamp": format_time(message.timestamp_ms or 0),
        "appended_at": format_time(row.append_time_ms),
        "attempts": str(dead.attempts),
        "group": origin.group,
        "reason": dead.reason,
        "died_at": format_time(origin.at_ms),
    }
    if dead.first_delivered_ms > 0:
        written["first_delivered"] = format_time(dead.first_delivered_ms)
    if message.expires_at_ms is not None:
        written["ttl"] = str(max(0, message.expires_at_ms - row.append_time_ms))
    headers = {name: value for name, value in (message.headers or {}).items() if name not in NAMES}
    headers |= {PREFIX + field: text.encode() for field, text in written.items()}
    if dead.error:
        headers[PREFIX + "error"] = dead.error.encode()[:_ERROR_BYTES]
    if message.key is not None:
        headers[PREFIX + "key"] = message.key
    return msgspec.structs.replace(message, headers=headers, expires_at_ms=None)


def to_message(row: StoredRow, now_ms: int) -> NewMessage:
    """A dead letter as it is redriven: as it was before, with its time to live from now on."""
    message = row.message
    headers = {name: value for name, value in (message.headers or {}).items() if name not in NAMES}
    ttl_ms = _number(message.headers or {}, "ttl")
    return msgspec.structs.replace(
        message, headers=headers, expires_at_ms=None if ttl_ms is None else now_ms + ttl_ms
    )


def read_dead_letter(partition: int, row: StoredRow) -> DeadLetter:
    """Accepts any headers: anybody may publish to a dead-letter topic."""
    message = row.message
    written = message.headers or {}
    return DeadLetter(
        partition=partition,
        offset=row.offset,
        timestamp_ms=message.timestamp_ms or 0,
        died_at_ms=row.append_time_ms,
        key=message.key,
        value=message.value,
        headers={name: value for name, value in written.items() if name not in NAMES},
        priority=Priority(message.priority),
        reason=_text(written, "reason"),
        last_error=_text(written, "error"),
        attempts=_number(written, "attempts") or 0,
        group=_text(written, "group"),
        original=_original(written),
    )


def _original(written: dict[str, bytes]) -> Original | None:
    topic, partition, offset = _text(written, "topic"), _number(written, "partition"), _number(written, "offset")
    if not topic or partition is None or offset is None:
        return None
    return Original(topic, partition, offset, _time(written, "appended_at"), _time(written, "first_delivered"))


def _text(written: dict[str, bytes], field: str) -> str:
    return written.get(PREFIX + field, b"").decode(errors="replace")


def _number(written: dict[str, bytes], field: str) -> int | None:
    digits = written.get(PREFIX + field, b"")
    return int(digits) if digits.isdigit() and len(digits) <= 18 else None


def _time(written: dict[str, bytes], field: str) -> int | None:
    try:
        return parse_time_ms(_text(written, field))
    except InvalidRequest:
        return None
