"""Lists of messages that are encoded while they are sent."""

import struct
from collections.abc import AsyncGenerator, Iterable, Sequence

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.routes.messages.message import MessageResponse


def streamed_messages(
    media: Media, runs: Iterable[Sequence[MessageResponse]], count: int
) -> AsyncGenerator[bytes, None]:
    """The object {"messages": [...]} in pieces, one per run; `count` is how many messages there are in all."""
    return _json(runs) if media is JSON else _packed(media, runs, count)


async def _json(runs: Iterable[Sequence[MessageResponse]]) -> AsyncGenerator[bytes, None]:
    before = b'{"messages":['
    for run in runs:
        yield before + JSON.encode(run)[1:-1]
        before = b","
    yield b"]}"


async def _packed(media: Media, runs: Iterable[Sequence[MessageResponse]], count: int) -> AsyncGenerator[bytes, None]:
    """MessagePack writes the length of a map or an array in front of it."""
    yield b"\x81" + media.encode("messages") + b"\xdd" + struct.pack(">I", count)
    for run in runs:
        yield b"".join(map(media.encode, run))
