"""A flag for each row that was read: whether it stays."""

import numpy as np
import numpy.typing as npt

from quiver.log.compaction.latest_keys import Rows


class RowFlags:
    """Grows as rows are added; all stay until they are cleared."""

    def __init__(self) -> None:
        self._flags = np.ones(1 << 16, np.bool_)
        self._count = 0

    def add(self, count: int) -> int:
        """Adds rows; returns the number of the first."""
        first, self._count = self._count, self._count + count
        while self._count > len(self._flags):
            self._flags = np.concatenate([self._flags, np.ones(len(self._flags), np.bool_)])
        return first

    def clear(self, rows: Rows) -> None:
        self._flags[rows] = False

    def keep(self, start: int, end: int) -> None:
        self._flags[start:end] = True

    def count_at(self, rows: Rows) -> int:
        return int(np.count_nonzero(self._flags[rows]))

    def counts(self, starts: Rows, end: int) -> npt.NDArray[np.int64]:
        """How many stay in each run. A run begins at each start and ends at the next one. No run is empty."""
        return np.add.reduceat(self._flags[:end], starts, dtype=np.int64)

    def packed(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        return np.packbits(self._flags[start:end])


def unpacked(packed: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(packed, count=count).view(np.bool_)
