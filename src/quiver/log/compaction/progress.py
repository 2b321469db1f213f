"""How far a log has been compacted, and when: the `compacted` file of a log."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import msgspec

from quiver.log.compaction.job import EVERYTHING
from quiver.system.files import Files

COMPACTED = "compacted"
"""The name of the file."""
_CRC_BYTES = 4
_PASSES_KEPT = 48
_QUIET_MS = 60_000  # between two passes that only remove tombstones


class Pass(NamedTuple):
    clean_to: int
    at_ms: int


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """Below the last pass's `clean_to` each key is there once.

    A tombstone may be removed when the pass that first saw it is long enough ago: readers of the value that it
    deletes read that before the pass, and have had the time since then to read the tombstone.
    """

    passes: tuple[Pass, ...] = ()
    tombstones: int = 0
    """The tombstones that the last pass kept."""

    @property
    def clean_to(self) -> int:
        return self.passes[-1].clean_to if self.passes else 0

    def tombstones_below(self, now_ms: int, retention_ms: int) -> int:
        """Tombstones below this offset have been kept long enough."""
        if retention_ms <= 0:
            return EVERYTHING
        return max((done.clean_to for done in self.passes if done.at_ms + retention_ms <= now_ms), default=0)

    def has_old_tombstones(self, now_ms: int, retention_ms: int) -> bool:
        """Whether a pass would find tombstones to remove, even without new messages."""
        if not self.tombstones or now_ms - self.passes[-1].at_ms < _QUIET_MS:
            return False
        return self.tombstones_below(now_ms, retention_ms) >= self.clean_to

    def after(self, done: Pass, *, tombstones: int, retention_ms: int) -> "Progress":
        passes = [*self.passes, done]
        while len(passes) > 1 and passes[1].at_ms + retention_ms <= done.at_ms:
            del passes[0]
        if len(passes) > _PASSES_KEPT:
            gaps = [after.at_ms - before.at_ms for before, after in pairwise(passes[1:])]
            del passes[1 + gaps.index(min(gaps))]
        return Progress(tuple(passes), tombstones)

    def cut(self, offset: int) -> "Progress":
        """The log was cut, and continues with other messages at an offset."""
        return Progress(tuple(Pass(min(done.clean_to, offset), done.at_ms) for done in self.passes), self.tombstones)


class ProgressFile:
    """A bad or missing file means that nothing was compacted yet, which is safe."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def load(self) -> Progress:
        try:
            content = self._files.read_file(self._path)
            crc, data = content[:_CRC_BYTES], content[_CRC_BYTES:]
            if int.from_bytes(crc, "little") == google_crc32c.value(data):
                return msgspec.msgpack.decode(data, type=Progress)
        except (OSError, msgspec.DecodeError):
            pass
        return Progress()

    def save(self, progress: Progress) -> None:
        data = msgspec.msgpack.encode(progress)
        self._files.write_file(self._path, google_crc32c.value(data).to_bytes(_CRC_BYTES, "little") + data)
