"""Segment logs in a directory, opened the way a storage does, and what they hold."""

from pathlib import Path

from quiver.log.files.open_files import OpenFiles
from quiver.log.recovery.opening import open_segment_log
from quiver.log.segment_appender import SegmentLimits
from quiver.log.segment_log import SegmentLog
from quiver.records.header import StampedFrame, read_stamped_header
from quiver.storage.port import Log
from quiver.system.files import Files

SEGMENT_BYTES = 16 * 1024


def open_log(directory: Path, *, files: Files | None = None, max_open: int = 100, **options: int) -> SegmentLog:
    limits = SegmentLimits(SEGMENT_BYTES, 10**12)._replace(**options)
    return open_segment_log("test/0", directory, OpenFiles(files or Files(), max_open), limits)


def append(log: SegmentLog, *frames: StampedFrame, sync: bool = True) -> None:
    log.appender.append(frames, log.appender.plan(frames), sync=sync)


def end_of_epoch(log: SegmentLog, epoch: int) -> int:
    return log.epochs().end_offset_of(epoch, start_offset=log.start_offset, end_offset=log.view.tail.frames_end)


def close(log: SegmentLog) -> None:
    log.close(log.end_offset)


def abandon(log: SegmentLog) -> None:
    """What a kill leaves: files as they are, nothing noted."""
    log.files.forget()


def read_all(log: SegmentLog, offset: int | None = None, *, max_bytes: int = 5_000) -> list[bytes]:
    """Every frame from an offset on."""
    offset = log.start_offset if offset is None else offset
    frames = []
    while (extent := log.view.read(offset, max_bytes=max_bytes)) is not None:
        data = log.files.open_files.files.pread(extent.fd, extent.length, extent.position)
        log.files.open_files.unpin(extent.file)
        assert len(data) == extent.length
        position = 0
        while position + 88 <= len(data):
            header = read_stamped_header(data, position)
            if position + header.frame_bytes > len(data):
                break
            frames.append(data[position : position + header.frame_bytes])
            position += header.frame_bytes
            offset = header.next_offset
        assert position, "a read holds at least one whole frame"
    return frames


def segment_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


async def frames_of(log: Log) -> list[bytes]:
    """Every frame of a log of the storage port."""
    frames, offset = [], log.start_offset
    while (found := await log.read(offset, max_bytes=1)) is not None:
        data = bytes(await found.read())
        found.release()
        header = read_stamped_header(data)
        frames.append(data[: header.frame_bytes])
        offset = header.next_offset
    return frames
