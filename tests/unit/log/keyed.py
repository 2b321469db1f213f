"""Frames with keys for tests of compaction, and what is in a log, message by message."""

from collections.abc import Sequence
from typing import NamedTuple

from quiver.records.build import build_frame
from quiver.records.header import FrameHeader, StampedFrame, stamp, unpack_header
from quiver.records.read import open_frame, split_frames
from quiver.storage.port import Compaction, Log

Row = tuple[bytes | None, bytes | None]
DAY_MS = 86_400_000


class Stored(NamedTuple):
    """A message as a reader finds it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    append_time_ms: int


def keyed_frame(
    offset: int,
    rows: Sequence[Row],
    *,
    time_ms: int = 1_000,
    producer_id: int = -1,
    transactional: bool = False,
    control: bool = False,
    compression: str = "none",
    priority: int = 2,
    epoch: int = 1,
) -> StampedFrame:
    """A stamped frame; each message has a timestamp of its own."""
    frame = build_frame(
        [value for _, value in rows],
        keys=[key for key, _ in rows],
        timestamps_ms=[time_ms + offset + n for n in range(len(rows))],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=offset if producer_id >= 0 else -1,
        transactional=transactional,
        control=control,
        compression=compression,
        priority=priority,
    )
    return stamp(frame, unpack_header(frame), base_offset=offset, leader_epoch=epoch, append_time_ms=time_ms)


async def stored_frames(log: Log) -> list[tuple[FrameHeader, bytes]]:
    """Every frame that a reader finds who begins at the start and reads on."""
    found, offset = [], log.start_offset
    while (part := await log.read(offset, max_bytes=20_000)) is not None:
        data = bytes(await part.read())
        part.release()
        for position, header in split_frames(data):
            found.append((header, data[position : position + header.frame_bytes]))
            offset = header.next_offset
    return found


def messages(frame: bytes) -> list[Stored]:
    opened = open_frame(frame)
    return [
        Stored(offset, key, value, timestamp, opened.header.append_time_ms)
        for offset, key, value, timestamp in zip(
            opened.offsets(), opened.keys(), opened.values(), opened.timestamps(), strict=True
        )
    ]


async def stored_messages(log: Log) -> list[Stored]:
    """Messages, without what control frames say."""
    return [m for header, frame in await stored_frames(log) if not header.is_control for m in messages(frame)]


def last_of_each_key(stored: Sequence[Stored]) -> list[Stored]:
    last = {message.key: message.offset for message in stored}
    return [message for message in stored if message.key is None or last[message.key] == message.offset]


def everything(log: Log, **options: object) -> Compaction:
    """A pass over all closed segments."""
    given = {"end_offset": log.end_offset, "now_ms": 10_000, "tombstone_retention_ms": DAY_MS, **options}
    return Compaction(**given)  # type: ignore[arg-type]
