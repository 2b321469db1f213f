"""Opening a log directory: at once after a clean stop, through recovery otherwise."""

import logging
import re
from functools import partial
from pathlib import Path

from quiver.log.compaction.progress import COMPACTED
from quiver.log.compaction.replacement import NOTE, finish_replacement
from quiver.log.compaction.segment_pass import NEW_SEGMENTS
from quiver.log.files.directories import Directories
from quiver.log.files.found_logs import FoundLogs
from quiver.log.files.open_files import OpenFiles
from quiver.log.files.write_error import is_lack_of_resources
from quiver.log.recovery.reservation import Reservation
from quiver.log.recovery.reserved_file import LogState, ReservedFile
from quiver.log.recovery.scan import Checkpoint, quarantine, scan_segment
from quiver.log.segment.frame_scan import Standing
from quiver.log.segment.index import DamagedIndex
from quiver.log.segment.segment import Segment
from quiver.log.segment_appender import SegmentLimits
from quiver.log.segment_files import SegmentFiles
from quiver.log.segment_log import SegmentLog
from quiver.log.segment_view import SegmentView, Tail
from quiver.log.snapshots import SnapshotFiles
from quiver.system.clock import Clock, SystemClock

_SEGMENT = re.compile(r"\d{20}\.log")
_logger = logging.getLogger(__name__)


def open_segment_log(
    log_id: str,
    directory: Path,
    open_files: OpenFiles,
    limits: SegmentLimits,
    *,
    directories: Directories | None = None,
    clock: Clock | None = None,
) -> SegmentLog:
    """Opens or creates a log. Its directory is made durable with its first segment."""
    files = open_files.files
    directories = directories or Directories(directory, files)
    names = files.names(directory)
    if NOTE in names or NEW_SEGMENTS in names:
        finish_replacement(directory, files)
        names = files.names(directory)
    reserved_file = ReservedFile(directory / "reserved", files, directories)
    state = reserved_file.load() if names else None
    if not names:
        directories.make(directory)
        reserved_file.save(LogState(), sync=False)
    reservation = Reservation(reserved_file, state.reserved_offset if state else 0, clock or SystemClock())
    view = SegmentView(log_id, open_files)
    snapshots = SnapshotFiles(directory, files, names, partial(open_files.troubled.add, log_id))
    log = SegmentLog(view, SegmentFiles(view, directory, directories), snapshots, reservation, limits)
    log.was_compacted = COMPACTED in names
    segments = _list_segments(directory, names, open_files)
    if state is not None and _is_clean(state, segments):
        last = segments[-1] if segments else None
        log.files.publish(segments, _clean_tail(state, last), synced=True)
        if state.lost_to:
            log.note_loss(state.lost_from, state.lost_to)
    else:
        _recover(log, segments, state or LogState(), directories.found_logs)
    directories.found_logs.note_opened(log_id)
    return log


def _list_segments(directory: Path, names: list[str], open_files: OpenFiles) -> tuple[Segment, ...]:
    files, present = open_files.files, set(names)
    segments = []
    for name in names:
        if not _SEGMENT.fullmatch(name):
            continue
        base_offset, index_name = int(name[:20]), f"{name[:20]}.index"
        size = files.path_size(directory / name)
        index_size = files.path_size(directory / index_name) if index_name in present else 0
        segments.append(Segment(directory, base_offset, open_files, size=size, index_size=index_size))
    # compaction may leave the first one empty: the log still begins there
    return tuple(segment for segment in segments if segment.size or segment in (segments[0], segments[-1]))


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
        state.frames_end,
    )


def _recover(log: SegmentLog, segments: tuple[Segment, ...], state: LogState, found_logs: FoundLogs) -> None:
    newest = log.snapshots.newest()
    floor = max(state.reserved_offset, newest[0] if newest else 0)
    if state.segment_base > (segments[-1].base_offset if segments else -1):
        segments = (*segments, log.files.create_segment(state.segment_base))
    if not segments:
        log.files.publish((), Tail(floor, None, 0, frames_end=min(floor, state.frames_end)), synced=True)
        return
    segment = segments[-1]
    file_size = segment.size
    checkpoint = _checkpoint(segment, state, newest[0] if newest else 0)
    recovery = scan_segment(segment, checkpoint)
    standing, frames_end = recovery.standing, recovery.standing.next_offset
    if checkpoint.frames_end is not None and recovery.size == checkpoint.position:
        frames_end = checkpoint.frames_end
    if standing.leader_epoch < 0:
        standing, frames_end = _standing_before(segments[:-1], standing)
    end = max(standing.next_offset, recovery.safe_offset, floor)
    segment.max_timestamp_ms = recovery.max_timestamp_ms
    tail = Tail(
        end,
        segment,
        recovery.size,
        standing.append_time_ms,
        recovery.max_timestamp_ms,
        standing.leader_epoch,
        frames_end,
    )
    log.files.publish(segments, tail, synced=True)
    for damage in recovery.damage:
        log.view.note_damage(damage)
        _logger.warning("%s: damaged data is left in place: %s", log.log_id, damage.error())
    is_short = state.segment_base == segment.base_offset and state.segment_size > file_size
    if state.lost_to:
        log.note_loss(state.lost_from, state.lost_to)
    if is_short and state.end_offset > standing.next_offset:
        log.note_loss(standing.next_offset, state.end_offset)
    _settle(log, segment, file_size, found_logs, has_stale_state=is_short)


def _checkpoint(segment: Segment, state: LogState, snapshot_offset: int) -> Checkpoint:
    """Where the scan begins: at the newest place up to which the segment is known to be good."""
    checkpoint = Checkpoint(0, Standing(segment.base_offset))
    if state.segment_base == segment.base_offset and state.segment_size <= segment.size:
        standing = Standing(state.end_offset, state.last_epoch, state.last_append_time_ms)
        checkpoint = Checkpoint(state.segment_size, standing, state.max_timestamp_ms, state.frames_end)
    if snapshot_offset <= checkpoint.standing.next_offset:
        return checkpoint
    try:
        entry = segment.index.last_where(lambda entry: entry.offset < snapshot_offset)
    except DamagedIndex:
        return checkpoint
    if entry is None or entry.position <= checkpoint.position:
        return checkpoint
    with segment.frames() as frames:
        header = frames.header_at(entry.position)
    if header is None or header.base_offset != entry.offset:
        return checkpoint
    return Checkpoint(entry.position, Standing(entry.offset), entry.max_timestamp_ms)


def _standing_before(segments: tuple[Segment, ...], standing: Standing) -> tuple[Standing, int]:
    """Epoch and time of the last frame in earlier segments, and its end, for a last segment without frames."""
    for segment in reversed(segments):
        found = segment.last_frame() if segment.size else None
        if found is not None:
            header = found.header
            return Standing(standing.next_offset, header.leader_epoch, header.append_time_ms), header.next_offset
    return standing, standing.next_offset


def _settle(
    log: SegmentLog, segment: Segment, file_size: int, found_logs: FoundLogs, *, has_stale_state: bool
) -> None:
    """Makes the result of recovery durable: copies the bytes to be cut, records the new end, then cuts them."""
    is_cut = segment.size < file_size
    try:
        kept = quarantine(segment, log.files.files, segment.size, file_size) if is_cut else None
        if is_cut or has_stale_state:
            log.reservation.save(log.state()._replace(reserved_offset=log.end_offset), sync=True)
        if is_cut or not found_logs.is_synced(log.log_id):
            log.files.cut_to_size(segment)
    except OSError as error:
        if is_lack_of_resources(error):
            log.files.forget()
            raise
        log.files.fail(f"recovery could not cut the torn end of {segment.path}: {error}")
        return
    if is_cut:
        _logger.warning(
            "%s: %d torn bytes at the end of %s were cut%s",
            log.log_id,
            file_size - segment.size,
            segment.path.name,
            f" and kept in {kept}" if kept else "; they were all zero",
        )
