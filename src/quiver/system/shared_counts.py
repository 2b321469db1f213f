"""A number per process, which all processes of one broker see."""

import mmap
import struct

_NUMBER = struct.Struct("<q")


class SharedCounts:
    """Made before the fork. Each process changes its own number only."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._memory = mmap.mmap(-1, processes * _NUMBER.size)

    def set(self, process: int, number: int) -> None:
        _NUMBER.pack_into(self._memory, process * _NUMBER.size, number)

    def least_of_others(self, process: int) -> int:
        """Of at least two."""
        return min(self._get(other) for other in range(self._processes) if other != process)

    def _get(self, process: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, process * _NUMBER.size)[0]
        return number
