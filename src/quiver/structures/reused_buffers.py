"""Large buffers whose memory is used again, because memory that was never touched costs more than the bytes in it."""

import io
from collections import deque
from collections.abc import Iterable
from typing import Any


class ReusedBuffers:
    """Joins pieces into memory of its own. For one thread at a time.

    A view that it returned stays valid, and unchanged, for as long as anything refers to it: a BytesIO refuses to be
    written to while there is a view of it, so memory that is referred to cannot be taken again.
    """

    def __init__(self, max_buffers: int) -> None:
        self._max_buffers = max_buffers
        self._buffers: deque[io.BytesIO] = deque()
        """The one that was used longest ago comes first, and is the one most likely to be free."""

    def join(self, pieces: Iterable[Any]) -> memoryview:
        """The pieces, one after the other; whoever gets the view may change its content."""
        buffer = self._free()
        buffer.writelines(pieces)
        size = buffer.tell()
        return buffer.getbuffer()[:size]

    def _free(self) -> io.BytesIO:
        if self._buffers:
            buffer = self._buffers[0]
            buffer.seek(0)
            try:
                buffer.write(b"")
            except BufferError:
                pass
            else:
                self._buffers.rotate(-1)
                return buffer
        buffer = io.BytesIO()
        if len(self._buffers) < self._max_buffers:
            self._buffers.append(buffer)
        return buffer
