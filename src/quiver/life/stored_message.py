"""The message whose life is asked for: its frame's header, and its own time and headers."""

from typing import NamedTuple

from quiver.life.log_frames import find_frame
from quiver.messages.stored_rows import StoredRow, frame_rows
from quiver.model.errors import CorruptData, InvalidFrame, MessageNotFound, PartitionNotFound
from quiver.model.limits import MIB
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.partition.transactions import read_marker
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame

_MARKER_BYTES = 16 * MIB
"""How much of the log is searched for the end of a transaction."""


class LookedUp(NamedTuple):
    offset: int
    header: FrameHeader
    row: StoredRow

    @property
    def sequence(self) -> int:
        """The number that its producer gave it."""
        return self.header.base_sequence + self.offset - self.header.base_offset

    @property
    def transaction(self) -> str:
        header = self.header
        return f"{header.producer_id}:{header.producer_epoch}" if header.is_transactional else ""


class TransactionEnd(NamedTuple):
    is_committed: bool
    at_ms: int | None


def check_partition(topic: Topic, number: int) -> None:
    if not 0 <= number < topic.config.partitions:
        raise PartitionNotFound(topic=topic.name, count=topic.config.partitions, partition=number)


async def look_up(topic: Topic, number: int, partition: Partition, offset: int) -> LookedUp:
    """MessageNotFound says why there is no message at the offset. Messages of open and aborted transactions count."""
    log, end = partition.log, partition.committed.high_watermark
    name = f"{topic.name}-{number}"
    if offset >= end:
        raise MessageNotFound(
            message=f"{name} at offset {offset}", problem=f"the next message will have offset {end}"
        )

    def choose(data: bytes | memoryview, position: int, header: FrameHeader) -> LookedUp | FrameHeader:
        if header.base_offset > offset or header.is_control:
            return header
        rows = frame_rows(open_frame(data, position, header=header), offset, offset + 1)
        return LookedUp(offset, header, rows[0]) if rows else header

    earliest = log.start_offset
    if offset >= earliest:
        try:
            found: LookedUp | FrameHeader | None = await find_frame(log, offset, choose, end=end, max_bytes=1)
        except InvalidFrame as error:
            raise CorruptData(where=name, problem=str(error), next_offset=offset + 1) from error
        if isinstance(found, LookedUp):
            return found
        earliest = log.start_offset
        if offset >= earliest:
            raise MessageNotFound(message=f"{name} at offset {offset}", problem=_why_empty(found, offset))
    problem = f"retention or a purge has removed everything before offset {earliest}"
    raise MessageNotFound(message=f"{name} at offset {offset}", problem=problem)


def _why_empty(found: FrameHeader | None, offset: int) -> str:
    if found is not None and found.is_control and found.base_offset <= offset:
        return "the end of a transaction is recorded there"
    return "compaction has removed it, or the offset was left out when the broker was killed"


async def transaction_end(partition: Partition, looked_up: LookedUp) -> TransactionEnd | None:
    """How the message's transaction ended; None while it is open. The time is None if the marker is far away."""
    header, transactions = looked_up.header, partition.tables.transactions
    if transactions.is_open(header.producer_id, header.producer_epoch):
        return None

    def choose(data: bytes | memoryview, position: int, each: FrameHeader) -> TransactionEnd | None:
        if not each.is_control or each.producer_id != header.producer_id:
            return None
        return TransactionEnd(read_marker(data, position).commit, each.append_time_ms)

    end = partition.committed.high_watermark
    found = await find_frame(partition.log, header.next_offset, choose, end=end, max_bytes=_MARKER_BYTES)
    return found or TransactionEnd(not transactions.is_aborted(header), None)
