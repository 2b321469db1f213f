"""The `epochs` file of a log: its history of leader epochs (docs/adr/0015-epoch-history.md)."""

import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import google_crc32c

from quiver.log.epoch_history import EpochHistory, EpochStart
from quiver.log.segment.segment import Segment
from quiver.system.files import Files

EPOCHS = "epochs"
_HEADER = struct.Struct("<6sHI")
_ENTRY = struct.Struct("<iq")
_CRC = struct.Struct("<I")
_MAGIC = b"QVEPOC"
_VERSION = 1
_logger = logging.getLogger(__name__)


class EpochFile:
    """The history of one log, from its file and the frames. Loaded when somebody asks, safe to use from threads.

    The file has what frames may not tell any more, because compaction has removed some: it is saved before that, with
    what frames in closed segments tell, which no crash takes away. Everything later is in the frames.
    """

    def __init__(self, directory: Path, files: Files) -> None:
        self._path = directory / EPOCHS
        self._files = files
        self._history: EpochHistory | None = None
        self._noted: list[EpochStart] = []
        """Of frames that were appended since it was opened."""
        self._folded = 0
        """How many of these the history has."""
        self._lock = Lock()

    def note(self, starts: Sequence[EpochStart]) -> None:
        """Epochs whose first frames were appended. Does not wait."""
        self._noted += starts

    def history(self, segments: Sequence[Segment], frames_end: int) -> EpochHistory:
        with self._lock:
            return self._loaded(segments, frames_end)

    def save(self, segments: Sequence[Segment], frames_end: int) -> None:
        """Frames of closed segments are about to go. Returns when the file is on disk; raises OSError."""
        with self._lock:
            open_from = segments[-1].base_offset if segments else 0
            closed = self._loaded(segments, frames_end).truncated(open_from + 1)
            before = self._read()
            if closed.starts != (() if before is None else before.starts):
                self._write(closed)

    def truncate(self, offset: int) -> None:
        """Called before the log is cut: what the file says of frames that come later would be wrong."""
        with self._lock:
            if self._history is not None:
                self._history = self._fold().truncated(offset)
            self._noted, self._folded = [start for start in self._noted if start.offset < offset], 0
            found = self._read()
            if found is not None and (kept := found.truncated(offset)).starts != found.starts:
                self._write(kept)

    def _loaded(self, segments: Sequence[Segment], frames_end: int) -> EpochHistory:
        if self._history is None:
            found = (self._read() or EpochHistory()).truncated(frames_end)
            later = epochs_in_frames(segments, above=found.latest)
            self._history = found.begun(later, start_offset=segments[0].base_offset) if later else found
        return self._fold()

    def _fold(self) -> EpochHistory:
        """Takes in what was noted."""
        assert self._history is not None, "it is loaded"
        noted = self._noted[self._folded :]
        if noted:
            self._history = self._history.begun(noted, start_offset=0)
            self._folded += len(noted)
        return self._history

    def _write(self, history: EpochHistory) -> None:
        self._files.write_file(self._path, _encode(history), sync=True)

    def _read(self) -> EpochHistory | None:
        try:
            content = self._files.read_file(self._path)
        except FileNotFoundError:
            return None
        found = _decode(content)
        if found is None:
            _logger.warning("%s is damaged; the epochs are read from the frames that are left", self._path)
        return found


def epochs_in_frames(segments: Sequence[Segment], *, above: int = -1) -> list[EpochStart]:
    """What the frames tell of epochs above one. Epochs rise, so only the segments from the first one on that ends
    with such an epoch are searched, up to the last epoch."""
    newest = next((found for each in reversed(segments) if (found := _last_epoch(each)) is not None), -1)
    starts: list[EpochStart] = []
    end = segments[0].base_offset if segments else 0
    for segment in segments:
        if newest <= above:
            break
        last = segment.last_frame() if segment.size else None
        while last is not None and last.header.leader_epoch > above:
            first = segment.first_with_epoch_above(above)
            if first is None:
                break
            before = segment.frame_before(first.position) if first.position else None
            above = first.header.leader_epoch
            starts.append(EpochStart(above, before.header.next_offset if before else end))
        if last is not None:
            end = last.header.next_offset
    return starts


def _last_epoch(segment: Segment) -> int | None:
    last = segment.last_frame() if segment.size else None
    return None if last is None else last.header.leader_epoch


def _encode(history: EpochHistory) -> bytes:
    parts = [_HEADER.pack(_MAGIC, _VERSION, len(history.starts)), *(_ENTRY.pack(*start) for start in history.starts)]
    data = b"".join(parts)
    return data + _CRC.pack(google_crc32c.value(data))


def _decode(content: bytes) -> EpochHistory | None:
    data, crc = content[: -_CRC.size], content[-_CRC.size :]
    if len(data) < _HEADER.size or _CRC.unpack(crc)[0] != google_crc32c.value(data):
        return None
    magic, version, count = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION) or len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    return EpochHistory(EpochStart(*entry) for entry in _ENTRY.iter_unpack(data[_HEADER.size :]))
