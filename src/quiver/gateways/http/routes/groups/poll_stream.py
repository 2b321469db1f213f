"""Large poll responses, encoded while they are sent."""

import struct
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.routes.queues.received import Size, shown_runs

if TYPE_CHECKING:
    from quiver.queues.service import Received

Messages: TypeAlias = "dict[str, list[Received]] | list[Received]"
"""By partition, or in one list."""


def streamed(media: Media, messages: Messages, tail: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """The object {messages, and what `tail` has}, in pieces."""
    return _json(messages, tail) if media is JSON else _packed(media, messages, tail)


async def _json(messages: Messages, tail: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    yield b'{"messages":'
    if isinstance(messages, dict):
        before = b"{"
        for number, received in messages.items():
            yield before + JSON.encode(number) + b":"
            for piece in _json_list(received):
                yield piece
            before = b","
        yield b"}"
    else:
        for piece in _json_list(messages):
            yield piece
    yield b"," + JSON.encode(tail)[1:]


def _json_list(received: "Sequence[Received]") -> Iterator[bytes]:
    before = b"["
    for run in shown_runs(received):
        yield before + JSON.encode(run)[1:-1]
        before = b","
    yield b"]"


async def _packed(media: Media, messages: Messages, tail: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """MessagePack writes the length of a map or an array in front of it."""
    yield _map_head(1 + len(tail)) + media.encode("messages")
    if isinstance(messages, dict):
        yield _map_head(len(messages))
        for number, received in messages.items():
            yield media.encode(number)
            for piece in _packed_list(media, received):
                yield piece
    else:
        for piece in _packed_list(media, messages):
            yield piece
    for name, value in tail.items():
        yield media.encode(name) + media.encode(value)


def _packed_list(media: Media, received: "Sequence[Received]") -> Iterator[bytes]:
    yield b"\xdd" + struct.pack(">I", Size(received).messages)
    for run in shown_runs(received):
        yield b"".join(map(media.encode, run))


def _map_head(count: int) -> bytes:
    return b"\xdf" + struct.pack(">I", count)
