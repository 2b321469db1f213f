"""Replaces old segments by a rewritten one. After a crash at any point either the old ones or the new one are there.

First a note is written with the size and the checksum of the new file. The new file is renamed over the first of the
old ones, and the rename is made durable; then the other old files are removed, and then the note. If there is a note
when the log is opened, the new file decides: if it is in its place, the other old files are removed; otherwise none
was removed yet, and everything stays as it was.
"""

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import msgspec

from quiver.log.compaction.job import Rewritten
from quiver.log.compaction.segment_pass import NEW_SEGMENTS
from quiver.log.segment.segment import Segment, segment_path
from quiver.log.segment_log import SegmentLog
from quiver.model.limits import MIB
from quiver.system.files import Files

NOTE = "replacement"
_CRC_BYTES = 4
_logger = logging.getLogger(__name__)


class _Note(msgspec.Struct, frozen=True, array_like=True):
    replaced: tuple[int, ...]
    size: int
    crc: int


def replace_segments(log: SegmentLog, old: Sequence[Segment], rewritten: Rewritten) -> bool:
    """False, with nothing changed, if the old segments are no longer those that were rewritten.

    One caller at a time changes a log. After an OSError the old or the new segments are in place, and a note may be
    left: then nothing more may be replaced until the log is opened again.
    """
    files, new_path = log.files.files, segment_path(log.files.directory / NEW_SEGMENTS, rewritten.replaced[0])
    if not _is_current(log, old):
        _discard(files, log.files.directory, new_path)
        return False
    log.save_epochs()
    if not rewritten.size and old[0] is not log.view.segments[0]:
        _discard(files, log.files.directory, new_path)
        log.files.publish(tuple(each for each in log.view.segments if each not in old), log.view.tail, synced=False)
        log.files.remove_segments(old)  # oldest first: a tombstone must be removed after what it deletes
        return True
    note = _Note(rewritten.replaced, rewritten.size, rewritten.crc)
    log.files.open_files.pin(old[0].file)  # the old files stay open under their names until no reader looks for them
    log.files.open_files.pin(old[0].index.file, create=True)
    try:
        _put_in_place(log, old, note, new_path)
    finally:
        log.files.open_files.unpin(old[0].file)
        log.files.open_files.unpin(old[0].index.file)
    log.files.remove_segments(old[1:])
    files.remove(log.files.directory / NOTE)
    files.sync_directory(log.files.directory)
    return True


def has_note(log: SegmentLog) -> bool:
    """A replacement has begun and is not finished; opening the log finishes it."""
    return NOTE in log.files.files.names(log.files.directory)


def finish_replacement(directory: Path, files: Files) -> None:
    """Called before a log is opened: finishes a replacement, or forgets it."""
    note = _read_note(directory, files)
    is_done = note is not None and _matches(files, segment_path(directory, note.replaced[0]), note)
    if note is not None and is_done:
        first, *others = (segment_path(directory, base_offset) for base_offset in note.replaced)
        files.remove(first.with_suffix(".index"))  # built again when it is needed
        for path in others:
            files.remove(path.with_suffix(".index"))
            files.remove(path)
        files.sync_directory(directory)
    if note is not None:
        _logger.info("%s: a compaction was %s", directory, "finished" if is_done else "undone")
    if NOTE in files.names(directory):
        files.remove(directory / NOTE)
        files.sync_directory(directory)
    files.remove_tree(directory / NEW_SEGMENTS)


def _is_current(log: SegmentLog, old: Sequence[Segment]) -> bool:
    segments, damaged = log.view.segments, {damage.segment_base for damage in log.view.damage}
    if old[0] not in segments or log.view.tail.segment in old:
        return False
    at = segments.index(old[0])
    return segments[at : at + len(old)] == tuple(old) and not any(each.base_offset in damaged for each in old)


def _put_in_place(log: SegmentLog, old: Sequence[Segment], note: _Note, new_path: Path) -> None:
    """From the note to the moment at which readers see the new segment."""
    files, first = log.files.files, old[0]
    try:
        data = msgspec.msgpack.encode(note)
        crc = google_crc32c.value(data).to_bytes(_CRC_BYTES, "little")
        files.write_file(log.files.directory / NOTE, crc + data)
        files.remove(first.index.file.path)
        files.rename(new_path, first.path)
    except OSError:
        _discard(files, log.files.directory, new_path)
        raise
    index_size = 0
    with contextlib.suppress(OSError):  # built again when it is needed
        files.rename(new_path.with_suffix(".index"), first.index.file.path)
        index_size = files.path_size(first.index.file.path)
    new = Segment(log.files.directory, first.base_offset, log.files.open_files, size=note.size, index_size=index_size)
    try:
        files.sync_directory(log.files.directory)
    finally:
        at = log.view.segments.index(first)
        log.files.publish(
            (*log.view.segments[:at], new, *log.view.segments[at + len(old) :]), log.view.tail, synced=False
        )
        log.view.forget_positions()
        for segment in old:
            segment.forget()


def _discard(files: Files, directory: Path, new_path: Path) -> None:
    for path in (new_path, new_path.with_suffix(".index"), directory / NOTE):
        with contextlib.suppress(OSError):
            files.remove(path)


def _read_note(directory: Path, files: Files) -> _Note | None:
    try:
        content = files.read_file(directory / NOTE)
        crc, data = content[:_CRC_BYTES], content[_CRC_BYTES:]
        if int.from_bytes(crc, "little") == google_crc32c.value(data):
            return msgspec.msgpack.decode(data, type=_Note)
    except (FileNotFoundError, msgspec.DecodeError):
        pass
    return None


def _matches(files: Files, path: Path, note: _Note) -> bool:
    """Whether a file is the new one, byte for byte."""
    try:
        if files.path_size(path) != note.size:
            return False
        fd = files.open_readonly(path)
    except FileNotFoundError:
        return False
    try:
        crc = 0
        for position in range(0, note.size, MIB):
            crc = google_crc32c.extend(crc, files.pread(fd, min(MIB, note.size - position), position))
        return crc == note.crc
    finally:
        files.close(fd)
