"""The `reserved` file of a log: how far offsets may have been given out, and how much of the log is known to be good.

Two records in separate sectors are written in turn, in place: the newer good one counts, a torn write leaves the
other, and its sync writes one block and no directory.
"""

import struct
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from quiver.log.files.directories import Directories
from quiver.system.files import Files

_RECORD = struct.Struct("<4sIQqqqqqqiqqq")
_CRC = struct.Struct("<I")
_MAGIC = b"QVRS"
_SLOT_BYTES = 512


class LogState(NamedTuple):
    """What a log knows about itself when it opens."""

    reserved_offset: int = 0
    """Offsets below this may have been given out."""
    is_clean: bool = False
    """Written on closing: the log ends exactly at reserved_offset and at segment_size."""
    segment_base: int = -1
    segment_size: int = 0
    """Bytes of that segment that were good and synced when this was written: recovery begins after them."""
    end_offset: int = 0
    """The end of the log at that place."""
    last_append_time_ms: int = 0
    max_timestamp_ms: int = -(2**63)
    last_epoch: int = -1
    lost_from: int = 0
    """Frames from here up to lost_to were synced and are gone; reads of them get an error, also after a restart."""
    lost_to: int = 0
    frames_end: int = 0
    """After the last frame at that place; end_offset may be above it."""


class ReservedFile:
    def __init__(self, path: Path, files: Files, directories: Directories) -> None:
        self._path = path
        self._files = files
        self._directories = directories
        self._sequence = 0
        self._has_durable_name = False

    def load(self) -> LogState | None:
        """The newest good record, None when there is none."""
        try:
            content = self._files.read_file(self._path)
        except FileNotFoundError:
            return None
        newest: LogState | None = None
        for begin in (0, _SLOT_BYTES):
            found = _decode(content[begin : begin + _SLOT_BYTES])
            if found and found[0] > self._sequence:
                self._sequence, newest = found
        # a bound above zero was saved durably before, or its log has a segment that was
        self._has_durable_name = newest is not None and newest.reserved_offset > 0
        return newest

    def save(self, state: LogState, *, sync: bool) -> None:
        """Replaces the record. With `sync` it is on disk when this returns, the file's name included."""
        self._sequence += 1
        slot = (self._sequence % 2) * _SLOT_BYTES
        fd = self._files.open(self._path, create=True)
        try:
            self._files.write_all(fd, [_encode(self._sequence, state)], slot)
            if sync:
                self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        if sync and not self._has_durable_name:
            self._directories.sync(self._path.parent)
            self._has_durable_name = True


def _encode(sequence: int, state: LogState) -> bytes:
    record = _RECORD.pack(
        _MAGIC,
        int(state.is_clean),
        sequence,
        state.reserved_offset,
        state.segment_base,
        state.segment_size,
        state.end_offset,
        state.last_append_time_ms,
        state.max_timestamp_ms,
        state.last_epoch,
        state.lost_from,
        state.lost_to,
        state.frames_end,
    )
    return (record + _CRC.pack(google_crc32c.value(record))).ljust(_SLOT_BYTES, b"\0")


def _decode(slot: bytes) -> tuple[int, LogState] | None:
    record, crc = slot[: _RECORD.size], slot[_RECORD.size : _RECORD.size + _CRC.size]
    if len(crc) < _CRC.size or _CRC.unpack(crc)[0] != google_crc32c.value(record):
        return None
    magic, clean, sequence, *fields = _RECORD.unpack(record)
    if magic != _MAGIC:
        return None
    reserved_offset, *rest = fields
    return sequence, LogState(reserved_offset, bool(clean), *rest)
