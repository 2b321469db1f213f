"""A stored frame and where its bytes are."""

from typing import NamedTuple

from quiver.records.header import FrameHeader


class StoredFrame(NamedTuple):
    """A frame in a buffer. Its header is checked, its body is not; the buffer may have only the header."""

    buffer: memoryview
    position: int
    header: FrameHeader
