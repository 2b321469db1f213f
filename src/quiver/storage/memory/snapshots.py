"""Snapshots of a log that are kept in memory."""

from quiver.log.snapshots import SNAPSHOTS_KEPT
from quiver.storage.port import Snapshot


class MemorySnapshots:
    def __init__(self) -> None:
        self._snapshots: list[Snapshot] = []

    def save(self, offset: int, data: bytes) -> None:
        self.remove(offset)
        self._snapshots = sorted([*self._snapshots, Snapshot(offset, data)])[-SNAPSHOTS_KEPT:]

    def newest(self, end_offset: int) -> Snapshot | None:
        """The newest one that is not above an offset."""
        return next((each for each in reversed(self._snapshots) if each.offset <= end_offset), None)

    def remove(self, offset: int) -> None:
        self._snapshots = [each for each in self._snapshots if each.offset != offset]

    def remove_above(self, offset: int) -> None:
        self._snapshots = [each for each in self._snapshots if each.offset <= offset]
