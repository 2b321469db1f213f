"""When a stored message was appended."""

from quiver.model.errors import QuiverError
from quiver.partition.partition import Partition
from quiver.records.header import HEADER_BYTES, read_stamped_header


async def append_time_ms(partition: Partition, offset: int) -> int | None:
    """Of the message at an offset, or of the next one; None if there is none, or if it cannot be read."""
    at = max(offset, partition.log.start_offset)
    try:
        part = await partition.log.read(at, max_bytes=1) if at < partition.committed.high_watermark else None
    except QuiverError:
        return None
    if part is None:
        return None
    try:
        return read_stamped_header((await part.read())[:HEADER_BYTES]).append_time_ms
    finally:
        part.release()
