"""Stored messages as responses show them."""

import codecs
from binascii import b2a_base64
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.model.message import StoredMessage
from quiver.model.priority import NAMES
from quiver.model.times import format_time

_incremental_utf8 = codecs.getincrementaldecoder("utf-8")

shown_time = lru_cache(maxsize=4096)(format_time)


class MessageResponse(msgspec.Struct, kw_only=True):
    """`value` when the bytes are UTF-8, `value_base64` otherwise; key and headers likewise."""

    topic: str | UnsetType = UNSET
    partition: int
    offset: int
    timestamp: str
    appended_at: str
    priority: str
    key: str | UnsetType = UNSET
    key_base64: str | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    value_base64: str | UnsetType = UNSET
    value_bytes: Annotated[
        int | UnsetType, Meta(description="How long the value is, where max_value_bytes has cut it.")
    ] = UNSET
    tombstone: bool | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    headers_base64: dict[str, str] | UnsetType = UNSET


def message_response(message: StoredMessage, max_value_bytes: int | None = None) -> MessageResponse:
    """A value that is longer than `max_value_bytes` is cut to it, at the end of a character if it is text."""
    shown = MessageResponse(
        partition=message.partition,
        offset=message.offset,
        timestamp=shown_time(message.timestamp_ms),
        appended_at=shown_time(message.append_time_ms),
        priority=NAMES[message.priority],
    )
    if max_value_bytes is not None and message.value is not None and len(message.value) > max_value_bytes:
        shown.value_bytes = len(message.value)
        message = msgspec.structs.replace(message, value=_beginning(message.value, max_value_bytes))
    show_content(shown, message)
    return shown


def _beginning(value: bytes, size: int) -> bytes:
    beginning = value[:size]
    try:
        return _incremental_utf8().decode(beginning).encode()
    except UnicodeDecodeError:
        return beginning


def show_content(shown: MessageResponse, message: StoredMessage) -> None:
    """Sets value, key and headers."""
    value = message.value
    if value is None:
        shown.value, shown.tombstone = None, True
    else:
        try:
            shown.value = value.decode()
        except UnicodeDecodeError:
            shown.value_base64 = _base64(value)
    if message.key is not None:
        try:
            shown.key = message.key.decode()
        except UnicodeDecodeError:
            shown.key_base64 = _base64(message.key)
    if message.headers:
        _show_headers(shown, message.headers)


def _show_headers(shown: MessageResponse, headers: dict[str, bytes]) -> None:
    texts, others = {}, {}
    for name, value in headers.items():
        try:
            texts[name] = value.decode()
        except UnicodeDecodeError:
            others[name] = _base64(value)
    if texts:
        shown.headers = texts
    if others:
        shown.headers_base64 = others


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")
