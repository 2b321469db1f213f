"""Segment logs in a directory, opened the way a storage does, and what they hold."""

from pathlib import Path

from quiver.log.files.open_files import OpenFiles
from quiver.log.recovery.opening import open_segment_log
from quiver.log.segment_log import SegmentLog
from quiver.records.header import StampedFrame, read_stamped_header
from quiver.system.files import Files

SEGMENT_BYTES = 16 * 1024


def open_log(directory: Path, *, files: Files | None = None, max_open: int = 100, **options: int) -> SegmentLog:
    settings = {"segment_bytes": SEGMENT_BYTES, "roll_after_ms": 10**12, **options}
    return open_segment_log("test/0", directory, OpenFiles(files or Files(), max_open), **settings)  # type: ignore[arg-type]


def append(log: SegmentLog, *frames: StampedFrame, sync: bool = True) -> None:
    log.append(frames, log.plan(frames), sync=sync)


def close(log: SegmentLog) -> None:
    log.close(log.end_offset)


def abandon(log: SegmentLog) -> None:
    """What a kill leaves: files as they are, nothing noted."""
    log.forget_files()


def read_all(log: SegmentLog, offset: int | None = None, *, max_bytes: int = 5_000) -> list[bytes]:
    """Every frame from an offset on."""
    offset = log.start_offset if offset is None else offset
    frames = []
    while (extent := log.read(offset, max_bytes=max_bytes)) is not None:
        data = log.open_files.files.pread(extent.fd, extent.length, extent.position)
        log.open_files.unpin(extent.file)
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
