"""A stored frame and where its bytes are."""

from typing import NamedTuple

from quiver.records.header import FrameHeader


class StoredFrame(NamedTuple):
    """A frame as it lies in a buffer. Its header is checked, its body is not; the buffer may have the header only."""

    buffer: memoryview
    position: int
    header: FrameHeader
