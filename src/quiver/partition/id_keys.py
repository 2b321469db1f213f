"""Message ids as keys of 16 bytes, whatever their length."""

import asyncio
from collections.abc import Iterable
from hashlib import blake2b

from quiver.records.columns import ID
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame, open_frame
from quiver.structures.digest_map import DIGEST_BYTES

Key = bytes
Keys = list[Key | None]
"""One per message; None if it has no id."""
IDS_IN_A_TURN = 8192
"""After this many, others get a turn on the event loop."""


def id_keys(ids: Iterable[bytes | None]) -> Keys:
    """An empty id counts as no id."""
    return [blake2b(id, digest_size=DIGEST_BYTES).digest() if id else None for id in ids]


class FrameIds:
    """The ids of a checked frame. The keys are made when they are first needed."""

    __slots__ = ("_frame", "_header", "_keys", "_opened")

    def __init__(self, frame: bytes | bytearray | memoryview, header: FrameHeader) -> None:
        self._frame = frame
        self._header = header
        self._opened: OpenFrame | None = None
        self._keys: Keys | None = None

    @property
    def opened(self) -> OpenFrame:
        if self._opened is None:
            self._opened = open_frame(self._frame, verify=False)
        return self._opened

    @property
    def keys(self) -> Keys:
        if self._keys is None:
            self._keys = id_keys(self.opened.ids())
        return self._keys

    async def prepare(self) -> None:
        """Makes the keys of a large frame without blocking the event loop."""
        if self._keys is None and self._header.record_count > IDS_IN_A_TURN:
            self._keys = await keys_in_turns(self.opened)


async def keys_in_turns(frame: OpenFrame) -> Keys:
    """The keys of a frame's messages, with a pause after every few thousand."""
    column = frame.column(ID)
    if column is None:
        return [None] * len(frame)
    keys: Keys = []
    for start in range(0, len(column), IDS_IN_A_TURN):
        if start:
            await asyncio.sleep(0)
        keys += id_keys(column.slice(start, IDS_IN_A_TURN).to_pylist())
    return keys
