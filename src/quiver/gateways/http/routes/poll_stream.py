"""Large answers to polls, encoded while they are sent."""

import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.routes.message import MessageAnswer, message_answer
from quiver.model.message import StoredMessage

TopicMessage = tuple[str, StoredMessage]
ByPartition = dict[str, list[TopicMessage]]

_RUN_MESSAGES = 500
_RUN_BYTES = 256 * 1024
"""Messages are encoded in runs of this size, small enough not to hold the event loop."""


def message_bytes(message: StoredMessage) -> int:
    size = len(message.value or b"") + len(message.key or b"")
    return size + sum(map(len, message.headers.values())) if message.headers else size


def polled_message(entry: TopicMessage) -> MessageAnswer:
    topic, message = entry
    shown = message_answer(message)
    shown.topic = topic
    return shown


def streamed(
    media: Media, messages: ByPartition | Sequence[TopicMessage], tail: dict[str, Any]
) -> AsyncIterator[bytes]:
    """The object {messages, and what `tail` has}, in pieces."""
    return _json(messages, tail) if media is JSON else _packed(media, messages, tail)


async def _json(messages: ByPartition | Sequence[TopicMessage], tail: dict[str, Any]) -> AsyncIterator[bytes]:
    yield b'{"messages":'
    if isinstance(messages, dict):
        before = b"{"
        for number, entries in messages.items():
            yield before + JSON.encode(number) + b":"
            for piece in _json_list(entries):
                yield piece
            before = b","
        yield b"}"
    else:
        for piece in _json_list(messages):
            yield piece
    yield b"," + JSON.encode(tail)[1:]


def _json_list(entries: Sequence[TopicMessage]) -> Iterator[bytes]:
    before = b"["
    for run in _runs(entries):
        yield before + JSON.encode(run)[1:-1]
        before = b","
    yield b"]"


async def _packed(
    media: Media, messages: ByPartition | Sequence[TopicMessage], tail: dict[str, Any]
) -> AsyncIterator[bytes]:
    """MessagePack writes the length of a map or an array in front of it."""
    yield _map_head(1 + len(tail)) + media.encode("messages")
    if isinstance(messages, dict):
        yield _map_head(len(messages))
        for number, entries in messages.items():
            yield media.encode(number)
            for piece in _packed_list(media, entries):
                yield piece
    else:
        for piece in _packed_list(media, messages):
            yield piece
    for name, value in tail.items():
        yield media.encode(name) + media.encode(value)


def _packed_list(media: Media, entries: Sequence[TopicMessage]) -> Iterator[bytes]:
    yield b"\xdd" + struct.pack(">I", len(entries))
    for run in _runs(entries):
        yield b"".join(map(media.encode, run))


def _map_head(count: int) -> bytes:
    return b"\xdf" + struct.pack(">I", count)


def _runs(entries: Sequence[TopicMessage]) -> Iterator[list[MessageAnswer]]:
    run: list[MessageAnswer] = []
    size = 0
    for entry in entries:
        run.append(polled_message(entry))
        size += message_bytes(entry[1])
        if len(run) >= _RUN_MESSAGES or size >= _RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run
