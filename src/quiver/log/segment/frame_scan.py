"""Iterates over stored frames by their headers, with or without checking bodies, and past damage."""

from collections.abc import Iterator
from typing import NamedTuple

from quiver.model.errors import InvalidFrame
from quiver.records.header import (
    ALIGNMENT,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    FrameHeader,
    body_crc,
    read_stamped_header,
)
from quiver.system.files import Files

_WINDOW_BYTES = 8 * 1024
_SEARCH_BYTES = 1024 * 1024
_MARK = MAGIC + bytes([VERSION])
PAGE_BYTES = 4096


class Standing(NamedTuple):
    """The offset, epoch and time that a log has reached at some position; later frames never have lower ones."""

    next_offset: int = 0
    leader_epoch: int = -1
    append_time_ms: int = 0

    def allows(self, header: FrameHeader) -> bool:
        return (
            header.base_offset >= self.next_offset
            and header.leader_epoch >= self.leader_epoch
            and header.append_time_ms >= self.append_time_ms
        )

    def after(self, header: FrameHeader) -> "Standing":
        return Standing(header.next_offset, header.leader_epoch, header.append_time_ms)


ANYWHERE = Standing()


class FrameFile:
    """Frames in one open file, up to `end`. Reads ahead in windows, so that small frames do not need a call each."""

    def __init__(self, files: Files, fd: int, end: int, *, window_bytes: int = _WINDOW_BYTES) -> None:
        self._files = files
        self._fd = fd
        self.end = end
        self._window_bytes = window_bytes
        self._window = b""
        self._window_at = 0

    def bytes_at(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes; fewer only at the end of the file."""
        begin = position - self._window_at
        if begin < 0 or begin + size > len(self._window):
            self._window = self._files.pread(self._fd, max(size, self._window_bytes), position)
            self._window_at, begin = position, 0
        return memoryview(self._window)[begin : begin + size]

    def header_at(self, position: int) -> FrameHeader | None:
        """The header of the frame at a position, if it is good and the whole frame is below the end."""
        header = self.claim_at(position)
        return header if header and position + header.frame_bytes <= self.end else None

    def claim_at(self, position: int) -> FrameHeader | None:
        """A good header, even if the rest of its frame is missing."""
        if position + HEADER_BYTES > self.end:
            return None
        try:
            return read_stamped_header(self.bytes_at(position, HEADER_BYTES))
        except InvalidFrame:
            return None

    def has_good_body(self, position: int, header: FrameHeader) -> bool:
        frame = self.bytes_at(position, header.frame_bytes)
        if len(frame) < header.frame_bytes:
            return False
        return body_crc(frame[:HEADER_BYTES], frame[HEADER_BYTES:]) == header.body_crc

    def walk(self, position: int) -> Iterator[tuple[int, FrameHeader | None]]:
        """Position and header of each frame; ends after the last, or with (position, None) at a bad header."""
        while position < self.end:
            header = self.header_at(position)
            yield position, header
            if header is None:
                return
            position += header.frame_bytes

    def next_good(self, position: int, standing: Standing = ANYWHERE) -> tuple[int, FrameHeader] | None:
        """The first whole frame with good checksums at or after a position.

        A message may contain what looks like a frame, so frames that contradict `standing` are skipped.
        """
        position += -position % ALIGNMENT
        while position + HEADER_BYTES <= self.end:
            chunk = self._files.pread(self._fd, min(_SEARCH_BYTES, self.end - position), position)
            found = _aligned_find(chunk)
            while found >= 0:
                header = self.header_at(position + found)
                if header and standing.allows(header) and self.has_good_body(position + found, header):
                    return position + found, header
                found = _aligned_find(chunk, found + ALIGNMENT)
            if len(chunk) <= ALIGNMENT:
                return None
            position += len(chunk) - len(chunk) % ALIGNMENT
        return None

    def has_zero_page(self, begin: int, end: int) -> bool:
        """Whether a page in a range was never written: a page of zeros, or zeros from `begin` to its page's end."""
        first_end = min(end, begin - begin % PAGE_BYTES + PAGE_BYTES)
        if not any(self.bytes_at(begin, first_end - begin)):
            return True
        page = begin + -begin % PAGE_BYTES
        while page + PAGE_BYTES <= end:
            if not any(self.bytes_at(page, PAGE_BYTES)):
                return True
            page += PAGE_BYTES
        return False


def _aligned_find(chunk: bytes, begin: int = 0) -> int:
    found = chunk.find(_MARK, begin)
    while found >= 0 and found % ALIGNMENT:
        found = chunk.find(_MARK, found + 1)
    return found
