"""Opening a log directory: at once after a clean stop, through recovery otherwise."""

import logging
import re
from pathlib import Path

from quiver.log.frame_scan import Standing
from quiver.log.open_files import OpenFiles
from quiver.log.recovery import Checkpoint, Recovery, quarantine, scan_segment
from quiver.log.reservation import Reservation
from quiver.log.reserved_file import LogState, ReservedFile
from quiver.log.segment import Segment, segment_path
from quiver.log.segment_index import DamagedIndex
from quiver.log.segment_log import SegmentLog
from quiver.log.segment_view import Tail
from quiver.log.snapshots import SnapshotFiles
from quiver.system.clock import Clock, SystemClock

_SEGMENT = re.compile(r"\d{20}\.log")
_logger = logging.getLogger(__name__)


def open_segment_log(
    log_id: str,
    directory: Path,
    open_files: OpenFiles,
    *,
    segment_bytes: int,
    roll_after_ms: int,
    root: Path | None = None,
    clock: Clock | None = None,
) -> SegmentLog:
    """Opens or creates a log. Directories from `root` down are made durable with its first segment."""
    files = open_files.files
    names = files.names(directory)
    reserved_file = ReservedFile(directory / "reserved", files)
    state = reserved_file.load() if names else None
    if not names:
        files.make_directory(directory)
        reserved_file.save(LogState(), sync=False)
    reservation = Reservation(reserved_file, state.reserved_offset if state else 0, clock or SystemClock())
    log = SegmentLog(
        log_id,
        directory,
        root or directory,
        open_files,
        segment_bytes=segment_bytes,
        roll_after_ms=roll_after_ms,
        snapshots=SnapshotFiles(directory, files, names),
        reservation=reservation,
    )
    segments = _list_segments(directory, names, open_files)
    if state is not None and _is_clean(state, segments):
        last = segments[-1] if segments else None
        log.publish(segments, _clean_tail(state, last), synced=True)
    else:
        _recover(log, segments, state or LogState())
    return log


def _list_segments(directory: Path, names: list[str], open_files: OpenFiles) -> tuple[Segment, ...]:
    files, present = open_files.files, set(names)
    segments = []
    for name in names:
        if not _SEGMENT.fullmatch(name):
            continue
        base_offset = int(name[:20])
        path = segment_path(directory, base_offset)
        index_path = path.with_suffix(".index")
        index_size = files.path_size(index_path) if index_path.name in present else 0
        segments.append(
            Segment(directory, base_offset, open_files, size=files.path_size(path), index_size=index_size)
        )
    return tuple(segments)


def _is_clean(state: LogState, segments: tuple[Segment, ...]) -> bool:
    if not state.is_clean:
        return False
    if not segments:
        return state.segment_base == -1
    return (segments[-1].base_offset, segments[-1].size) == (state.segment_base, state.segment_size)


def _clean_tail(state: LogState, last: Segment | None) -> Tail:
    if last is not None:
        last.max_timestamp_ms = state.max_timestamp_ms
        last.last_append_time_ms = state.last_append_time_ms if last.size else None
    return Tail(
        state.reserved_offset,
        last,
        state.segment_size,
        state.last_append_time_ms,
        state.max_timestamp_ms,
        state.last_epoch,
    )


def _recover(log: SegmentLog, segments: tuple[Segment, ...], state: LogState) -> None:
    newest = log.snapshots.newest()
    floor = max(state.reserved_offset, newest[0] if newest else 0)
    if not segments:
        log.publish((), Tail(floor, None, 0), synced=True)
        return
    segment = segments[-1]
    file_size = segment.size
    checkpoint = _checkpoint(segment, state, newest[0] if newest else 0)
    recovery = scan_segment(segment, checkpoint)
    _take_over_standing(segments, recovery)
    end = max(recovery.standing.next_offset, recovery.safe_offset, floor, segment.base_offset)
    segment.max_timestamp_ms = recovery.max_timestamp_ms
    tail = Tail(
        end,
        segment,
        recovery.size,
        recovery.standing.append_time_ms,
        recovery.max_timestamp_ms,
        recovery.standing.leader_epoch,
    )
    log.publish(segments, tail, synced=True)
    for damage in recovery.damage:
        log.note_damage(damage)
        _logger.warning("%s: damaged data, kept in place: %s", log.log_id, damage.error())
    _settle(log, segment, recovery, file_size, end, state)
