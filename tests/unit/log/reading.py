"""All frames of a log, as bytes."""

from quiver.records.header import read_stamped_header
from quiver.storage.port import Log


async def frames_of(log: Log) -> list[bytes]:
    frames, offset = [], log.start_offset
    while (found := await log.read(offset, max_bytes=1)) is not None:
        data = bytes(await found.read())
        found.release()
        header = read_stamped_header(data)
        frames.append(data[: header.frame_bytes])
        offset = header.next_offset
    return frames
