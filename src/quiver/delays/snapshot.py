"""Snapshots of delayed messages: packed arrays, in pieces that are made one at a time."""

from collections.abc import Iterator

import msgspec
import numpy as np

from quiver.delays.events import packed, unpacked
from quiver.delays.state import DelayState
from quiver.storage.image_pieces import piece, pieces

_SLICE = 32_768


def encode_image(state: DelayState) -> Iterator[bytes]:
    """The state as it is when the first piece is made, less what is cancelled until the last one is."""
    known_below = state.known_below
    yield piece(state.image())
    id = -1
    while True:
        ids, times, places = state.pending.behind(id, _SLICE)
        new = int(np.searchsorted(ids, known_below))
        if not new:
            return
        id = int(ids[new - 1])
        yield piece([packed(numbers[:new]) for numbers in (ids, times, places)])


def decode_image(data: bytes, state: DelayState) -> None:
    """Fills an empty state."""
    stored = pieces(data)
    state.restore(msgspec.msgpack.decode(next(stored)))
    parts = [[unpacked(numbers) for numbers in msgspec.msgpack.decode(part)] for part in stored]
    if parts:
        state.pending.restore(*(np.concatenate(column) for column in zip(*parts, strict=True)))
