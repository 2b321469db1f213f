"""What leaders ask of followers, and the port over which they do. Calls may be lost, late, repeated and reordered.

Frames and snapshots follow their message as raw bytes.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from quiver.model.errors import ProtocolError
from quiver.storage.port import Compaction, LogOptions

Buffer = bytes | bytearray | memoryview


class ToFollower(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Numbers of logs hold in one epoch of a unit; a log that is made again has another one."""

    unit: int
    epoch: int
    to: int
    """The incarnation that is meant; another one replies with its own, and does nothing."""


class Greet(ToFollower, frozen=True, tag="greet"):
    """Which incarnation are you?"""


class Manifest(ToFollower, frozen=True, tag="manifest"):
    """All logs of the unit. What else the follower has of it goes."""

    logs: tuple[tuple[int, str], ...]


class LogStart(msgspec.Struct, frozen=True, array_like=True):
    """A log, as its leader has it."""

    number: int
    log_id: str
    options: LogOptions
    last_epoch: int
    """Of its last frame, as is the end."""
    end_offset: int
    complete_from: int
    """A replica that ends below cannot continue: frames that would follow are gone, or others than they were."""
    common: tuple[int, int] | None = None
    """The largest epoch not above the follower's last one, and where it ends; None while that is not known."""
    start_offset: int = 0


class Align(ToFollower, frozen=True, tag="align"):
    """How far do your logs agree with mine?"""

    logs: tuple[LogStart, ...]


class LogPart(msgspec.Struct, frozen=True, array_like=True):
    """Frames of one log, which follow `base`. There is nothing else below `end`."""

    number: int
    base: int
    end: int
    frame_bytes: int
    watermark: int
    start_offset: int
    """Retention has removed what is below."""
    snapshot_offset: int
    """Of the leader's newest snapshot, -1 without; the front stays until the follower has one as new."""
    is_synced: bool
    """The follower confirms what it has synced, not what it has written."""


class Append(ToFollower, frozen=True, tag="append"):
    parts: tuple[LogPart, ...] = ()
    removed: tuple[tuple[int, str], ...] = ()
    """Logs that are to be removed."""


class SnapshotChunk(ToFollower, frozen=True, tag="snapshot"):
    number: int
    offset: int
    position: int
    """Of the chunk in the snapshot."""
    size_bytes: int
    crc: int
    """Of the whole snapshot."""


class Compact(ToFollower, frozen=True, tag="compact"):
    number: int
    compaction: Compaction
    snapshot_offset: int


Message = Greet | Manifest | Align | Append | SnapshotChunk | Compact


class LogPosition(msgspec.Struct, frozen=True, array_like=True):
    number: int
    end_offset: int
    synced_offset: int
    is_aligned: bool
    last_epoch: int = -1
    """The last epoch in its log, while it is not aligned."""
    snapshot_offset: int = -1
    """Of the newest snapshot; while one is copied, how many bytes of it are there is `end_offset`."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a follower is."""

    epoch: int
    """The latest that it knows of: higher than the leader's if that is deposed."""
    incarnation: int = 0
    lost_at: int = 0
    logs: tuple[LogPosition, ...] = ()
    is_leaving: bool = False
    """The node is about to stop, and follows nobody any more."""


class Links(Protocol):
    async def call(self, node: int, message: Message, payload: Sequence[Buffer] = ()) -> Position:
        """Raises QuiverError or OSError; then it is not known what became of it."""
        ...


_encoder = msgspec.msgpack.Encoder()
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_position_decoder: msgspec.msgpack.Decoder[Position] = msgspec.msgpack.Decoder(Position)


def encode(value: Message | Position) -> bytes:
    return _encoder.encode(value)


def decode_message(data: Buffer) -> Message:
    """Fields that a later version has added are left out. ProtocolError for a message that this one does not know."""
    try:
        return _message_decoder.decode(data)
    except msgspec.MsgspecError as problem:
        raise ProtocolError(problem=f"a message of another node cannot be read: {problem}") from problem


def decode_position(data: Buffer) -> Position:
    return _position_decoder.decode(data)
