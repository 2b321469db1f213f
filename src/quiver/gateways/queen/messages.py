"""Messages as they are stored, and as clients see them: the payload is JSON text, ids are headers."""

from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.queen.identifiers import message_id
from quiver.model.times import format_time

TRANSACTION_HEADER, TRACE_HEADER = "queen-transaction-id", "queen-trace-id"
ID_HEADER = "queen-message-id"
"""Of messages that got their id before their offset."""
_DIGEST_BYTES = 16
_checked_json = msgspec.json.Decoder(msgspec.Raw).decode


def checked_text(value: bytes) -> bytes:
    """The same; UnicodeDecodeError if it is not text."""
    if not value.isascii():
        value.decode()
    return value


def dedup_id(key: bytes, transaction_id: str) -> bytes:
    """The message id of a transactionId in its partition."""
    place = len(key).to_bytes(2) + key
    return blake2b(place + transaction_id.encode(), digest_size=_DIGEST_BYTES).digest()


def transaction_id(headers: dict[str, bytes], topic_id: int, partition: int, offset: int) -> str:
    """The one that the message was pushed with; otherwise its place, in the form of a UUID."""
    given = headers.get(TRANSACTION_HEADER)
    return message_id(topic_id, partition, offset) if given is None else given.decode(errors="replace")


def own_id(headers: dict[str, bytes] | None, topic_id: int, partition: int, offset: int) -> str:
    """The id of a message: its place, unless it was delayed."""
    given = (headers or {}).get(ID_HEADER)
    return message_id(topic_id, partition, offset) if given is None else given.decode(errors="replace")


def trace_id(headers: dict[str, bytes]) -> str | None:
    given = headers.get(TRACE_HEADER)
    return None if given is None else given.decode(errors="replace")


def payload(value: bytes | None, media: Media) -> Any:
    """What the client gets as `data`; a value that is not JSON is its text."""
    if value is None:
        return None
    try:
        return _checked_json(checked_text(value)) if media is JSON else msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return value.decode(errors="replace")


@lru_cache(maxsize=1024)
def shown_time(time_ms: int) -> str:
    """UTC with microseconds."""
    return f"{format_time(time_ms)[:-1]}000Z"
