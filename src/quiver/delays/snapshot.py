"""Snapshots of delayed messages: packed arrays, in chunks that are made one at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from quiver.delays.events import packed, unpacked
from quiver.storage.snapshot_chunks import chunk, chunks

if TYPE_CHECKING:
    from quiver.delays.state import DelayState

_CHUNK_MESSAGES = 32_768


def encode_state(state: "DelayState") -> Iterator[bytes]:
    """The state at the first chunk, without what is cancelled before the last one is made."""
    known_below = state.known_below
    yield chunk(state.head())
    id = -1
    while True:
        ids, times, places = state.pending.after(id, _CHUNK_MESSAGES)
        new = int(np.searchsorted(ids, known_below))
        if not new:
            return
        id = int(ids[new - 1])
        yield chunk([packed(numbers[:new]) for numbers in (ids, times, places)])


def restore_state(data: bytes, state: "DelayState") -> None:
    """Fills an empty state."""
    stored = chunks(data)
    state.restore_head(msgspec.msgpack.decode(next(stored)))
    parts = [[unpacked(numbers) for numbers in msgspec.msgpack.decode(part)] for part in stored]
    if parts:
        state.pending.restore(*(np.concatenate(column) for column in zip(*parts, strict=True)))
