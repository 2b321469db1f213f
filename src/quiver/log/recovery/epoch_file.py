"""The `epochs` file of a log: its history of leader epochs (docs/adr/0015-epoch-history.md)."""

import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import google_crc32c

from quiver.log.epoch_history import EpochHistory, EpochStart
from quiver.log.segment.segment import Segment
from quiver.model.errors import StaleEpoch
from quiver.system.files import Files

EPOCHS = "epochs"
_HEADER = struct.Struct("<6sHI")
_ENTRY = struct.Struct("<iq")
_CRC = struct.Struct("<I")
_MAGIC = b"QVEPOC"
_VERSION = 1
_logger = logging.getLogger(__name__)


class EpochFile:
    """The history of one log. Loaded at its first use, and replaced as a whole. Safe to use from threads.

    A log has no such file until its second epoch: its frames say what the first one is.
    """

    def __init__(self, directory: Path, files: Files) -> None:
        self._path = directory / EPOCHS
        self._files = files
        self._history: EpochHistory | None = None
        self._is_missing = False
        self._lock = Lock()

    def history(self, segments: Sequence[Segment], frames_end: int) -> EpochHistory:
        """Read from `segments` if the file is lost. Epochs beyond the last frame were lost with their frames."""
        with self._lock:
            return self._loaded(segments, frames_end)

    def begin(self, starts: Sequence[EpochStart], segments: Sequence[Segment], frames_end: int) -> None:
        """Records new epochs durably, before the first append with them. Raises OSError if that fails."""
        with self._lock:
            known = self._loaded(segments, frames_end)
            if starts[0].epoch < known.latest:  # of a leader that existed, although its first append failed
                raise StaleEpoch(epoch=starts[0].epoch, current=known.latest)
            start_offset = segments[0].base_offset if segments else frames_end
            changed = known.begun(starts, start_offset=start_offset)
            if changed is known:
                return
            if len(changed.starts) > 1 or not self._is_missing:  # an old file would be used later
                self._write(changed)
            self._history = changed

    def truncate(self, offset: int) -> None:
        """Called after the log was cut. If a crash prevents it, loading the file does the same."""
        with self._lock:
            known = self._history if self._history is not None else self._read()
            if known is None:
                return
            changed = known.truncated(offset)
            if changed.starts != known.starts:
                self._write(changed)
            self._history = changed

    def _loaded(self, segments: Sequence[Segment], frames_end: int) -> EpochHistory:
        if self._history is None:
            found = self._read()
            if found is None:
                found = EpochHistory(epochs_in_frames(segments))
            self._history = found.truncated(frames_end)
        return self._history

    def _write(self, history: EpochHistory) -> None:
        self._files.write_file(self._path, _encode(history), sync=True)
        self._is_missing = False

    def _read(self) -> EpochHistory | None:
        try:
            content = self._files.read_file(self._path)
        except FileNotFoundError:
            self._is_missing = True
            return None
        found = _decode(content)
        if found is None:
            _logger.warning("%s is damaged; the epochs are read from the frames that are left", self._path)
        return found


def epochs_in_frames(segments: Sequence[Segment]) -> list[EpochStart]:
    """The history that the frames show, for a log without a file. Epochs rise, so the search ends at the last one."""
    starts: list[EpochStart] = []
    end = segments[0].base_offset if segments else 0
    newest = next((segment.last_frame() for segment in reversed(segments) if segment.size), None)
    for segment in segments:
        if newest is None or (starts and starts[-1].epoch == newest.header.leader_epoch):
            break
        last = segment.last_frame() if segment.size else None
        while last is not None and last.header.leader_epoch > (starts[-1].epoch if starts else -1):
            epoch = starts[-1].epoch if starts else -1
            first = segment.first_with_epoch_above(epoch)
            if first is None:
                break
            before = segment.frame_before(first.position) if first.position else None
            starts.append(EpochStart(first.header.leader_epoch, before.header.next_offset if before else end))
        if last is not None:
            end = last.header.next_offset
    return starts


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
