"""What leaders ask of followers, and the port over which they do. Calls may be lost, late, repeated and reordered."""

from typing import Protocol

import msgspec

from quiver.storage.port import LogOptions


class Align(msgspec.Struct, frozen=True, tag="align"):
    """How far does your log agree with mine?"""

    log_id: str
    epoch: int
    options: LogOptions
    common: tuple[int, int] | None = None
    """The leader's largest epoch not above the follower's last one, and where it ends; None while that is not known.
    """


class Append(msgspec.Struct, frozen=True, tag="append"):
    """Frames of the leader's log, which follow `base`."""

    log_id: str
    epoch: int
    base: int
    watermark: int
    frames: bytes = b""


Message = Align | Append


class Position(msgspec.Struct, frozen=True, tag="position"):
    """Where a follower is."""

    epoch: int
    """The latest that it knows of: higher than the leader's if that is deposed."""
    end_offset: int
    is_aligned: bool
    last_epoch: int = -1
    """The last epoch in its log, while it is not aligned."""


class Links(Protocol):
    async def call(self, node: int, message: Message) -> Position:
        """Raises QuiverError or OSError; then it is not known what became of it."""
        ...
