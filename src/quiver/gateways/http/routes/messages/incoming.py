"""Messages in requests, and how they become messages of the broker."""

import binascii
from typing import Annotated

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import DURATION, PRIORITY, note
from quiver.gateways.http.media import Media
from quiver.model.errors import InvalidRequest
from quiver.model.limits import MESSAGE_ID_BYTES
from quiver.model.message import NewMessage, check_message_id
from quiver.model.priority import NAMES, Priority, parse_priority
from quiver.model.times import parse_duration_ms, parse_time_ms

_ABSENT = msgspec.Raw()

Text = Annotated[msgspec.Raw, Meta(description="Text, or any JSON, which is kept as its text.")]
Base64 = Annotated[str | None, Meta(description="Base64, for bytes that are not text.")]
Duration = Annotated[str | int | float | None, note("Such as 500ms, 30s or 1h30m, or seconds.", **DURATION)]
Time = Annotated[str | int | float | None, note("RFC 3339 or epoch milliseconds.", minimum=0)]


def _absent() -> msgspec.Raw:
    return _ABSENT


class MessageToPublish(msgspec.Struct, kw_only=True):
    """One of value, value_base64 or tombstone is needed."""

    value: Text = msgspec.field(default_factory=_absent)
    value_base64: Base64 = None
    tombstone: Annotated[bool | None, Meta(description="True writes a null value.")] = None
    key: Text = msgspec.field(default_factory=_absent)
    key_base64: Base64 = None
    headers: dict[str, str | None] | None = None
    headers_base64: dict[str, str | None] | None = None
    timestamp: Time = None
    partition: Annotated[int | None, note("By default chosen by key or id, or spread evenly.", minimum=0)] = None
    priority: Annotated[str | int | None, note(f"{', '.join(NAMES)}, or 0 to 4.", **PRIORITY)] = None
    ttl: Duration = None
    id: Annotated[
        str | None,
        note(
            "A second message with the same id within dedup_window is not stored.",
            minLength=1,
            maxLength=MESSAGE_ID_BYTES,
        ),
    ] = None
    delay: Annotated[Duration, Meta(description="The message enters the topic this much later.")] = None
    deliver_at: Annotated[Time, Meta(description="The message enters the topic at that time.")] = None
    deliver_at_camel: Time = msgspec.field(name="deliverAt", default=None)


def new_message(message: MessageToPublish, media: Media, now_ms: int) -> NewMessage:
    """The message as the broker takes it; a QuiverError says what is wrong with it."""
    deliver_at_ms = _deliver_at_ms(message, now_ms)
    arrival_ms = now_ms if deliver_at_ms is None else max(now_ms, deliver_at_ms)
    return NewMessage(
        value=_value(message, media),
        key=_bytes_of("key", message.key, message.key_base64, media),
        headers=_headers(message) if message.headers or message.headers_base64 else None,
        timestamp_ms=None if message.timestamp is None else parse_time_ms(message.timestamp, "timestamp"),
        partition=message.partition,
        priority=Priority.NORMAL if message.priority is None else parse_priority(message.priority),
        deliver_at_ms=deliver_at_ms,
        expires_at_ms=None if message.ttl is None else arrival_ms + parse_duration_ms(message.ttl, "ttl"),
        id=None if message.id is None else _id(message.id),
    )


def _id(text: str) -> bytes:
    id = text.encode()
    check_message_id(id)
    return id


def _deliver_at_ms(message: MessageToPublish, now_ms: int) -> int | None:
    due = message.deliver_at if message.deliver_at is not None else message.deliver_at_camel
    if message.delay is None:
        return None if due is None else parse_time_ms(due, "deliver_at")
    if due is not None:
        raise InvalidRequest(problem="give delay or deliver_at, not both")
    return now_ms + parse_duration_ms(message.delay, "delay")


def _value(message: MessageToPublish, media: Media) -> bytes | None:
    value = _bytes_of("value", message.value, message.value_base64, media)
    if message.tombstone:
        if value is not None:
            raise InvalidRequest(problem="a tombstone has no value")
        return None
    if value is None:
        raise InvalidRequest(problem="a message needs value, value_base64 or tombstone: true")
    return value


def _bytes_of(name: str, given: msgspec.Raw, base64: str | None, media: Media) -> bytes | None:
    try:
        text = media.text_of(given) if given is not _ABSENT else None
    except (UnicodeError, msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(problem=f"{name} is not valid {media.label}: {error}") from None
    if base64 is None:
        return text
    if text is not None:
        raise InvalidRequest(problem=f"give {name} or {name}_base64, not both")
    return _from_base64(f"{name}_base64", base64)


def _headers(message: MessageToPublish) -> dict[str, bytes]:
    headers = {name: text.encode() for name, text in (message.headers or {}).items() if text is not None}
    for name, base64 in (message.headers_base64 or {}).items():
        if base64 is not None:
            headers[name] = _from_base64(f"header {name!r}", base64)
    return headers


def _from_base64(what: str, text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (ValueError, UnicodeError) as error:
        raise InvalidRequest(problem=f"{what} is not base64: {error}") from None
