"""Packs the messages of a move into frames of bounded size, each with one priority and one schema."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from quiver.model.limits import MIB
from quiver.model.message import NewMessage

FRAME_BYTES = 4 * MIB
FRAME_MESSAGES = 1000


class Placed(NamedTuple):
    """A message with its place in the move, counted from 0: its sequence is the move's plus this."""

    place: int
    schema_id: int
    size: int
    message: NewMessage


class Packed(NamedTuple):
    place: int
    """The place of the first message; the others follow without a gap."""
    schema_id: int
    messages: list[NewMessage]


async def packed(slices: AsyncIterator[list[Placed]]) -> AsyncIterator[Packed]:
    """In the order of places. After a gap, where a message is gone, a new frame begins, so that sequences stay
    right."""
    frame: Packed | None = None
    size = 0
    async for placed in slices:
        for item in placed:
            if frame is not None and not _belongs(frame, size, item):
                yield frame
                frame = None
            if frame is None:
                frame, size = Packed(item.place, item.schema_id, []), 0
            frame.messages.append(item.message)
            size += item.size
    if frame is not None:
        yield frame


def _belongs(frame: Packed, size: int, item: Placed) -> bool:
    count = len(frame.messages)
    return (
        item.place == frame.place + count
        and item.schema_id == frame.schema_id
        and item.message.priority == frame.messages[0].priority
        and count < FRAME_MESSAGES
        and size + item.size <= FRAME_BYTES
    )
