"""Transactions as one partition sees them: which are open, where its stable part ends, what was aborted.

Data frames of a transaction are in the log in the order of their arrival. A marker, which is a control frame with the
same producer id and epoch, ends the transaction in this partition: committed or aborted. Pure: no clock, no I/O.
"""

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidFrame
from quiver.model.priority import Priority
from quiver.records.header import CONTROL, HEADER_BYTES, TRANSACTIONAL, FrameHeader, unpack_header
from quiver.records.read import open_frame
from quiver.records.single import single_frame

_NO_MESSAGES = (0, 0, 0, 0, 0)


class Marker(msgspec.Struct, frozen=True, array_like=True):
    """The content of a control frame."""

    commit: bool
    at_ms: int


class PartitionTransaction(NamedTuple):
    epoch: int
    first_offset: int
    end_offset: int
    """The offset after its last frame so far."""
    counts: tuple[int, ...]
    """Its messages by priority."""


class AbortedTransaction(NamedTuple):
    """Frames of the producer from the first offset up to the marker do not count."""

    producer_id: int
    first_offset: int
    marker_offset: int
    stable: int
    """The last stable offset when it was aborted. Everything aborted later begins there or after it."""
    totals: tuple[int, ...]
    """The sum of messages by priority of this one and all that were aborted before it."""


class TransactionChange(NamedTuple):
    """What `record` did, for `take_back`."""

    producer_id: int
    before: PartitionTransaction | None
    visible_end: int
    has_aborted: bool


class TransactionsSnapshot(msgspec.Struct, array_like=True):
    open: dict[int, PartitionTransaction]
    aborted: list[AbortedTransaction]
    totals_before: tuple[int, ...]
    visible_end: int


class TransactionTable:
    def __init__(self) -> None:
        self._open: dict[int, PartitionTransaction] = {}
        """In the order of their first offsets."""
        self._aborted: list[AbortedTransaction] = []
        """In the order of their markers."""
        self._totals_before: tuple[int, ...] = _NO_MESSAGES
        """Messages by priority of aborted transactions that are forgotten."""
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        self.visible_end = 0
        """The offset after the last message that is committed or may still be."""

    @property
    def open(self) -> dict[int, PartitionTransaction]:
        """By producer id."""
        return self._open

    def first_open_offset(self) -> int | None:
        """Where the earliest open transaction begins: readers of committed messages stop there."""
        for transaction in self._open.values():
            return transaction.first_offset
        return None

    def is_open(self, producer_id: int, epoch: int) -> bool:
        found = self._open.get(producer_id)
        return found is not None and found.epoch == epoch

    def record(self, header: FrameHeader, marker: Marker | None) -> TransactionChange:
        """A frame has its offset: a data frame, or a marker with its content."""
        producer_id = header.producer_id
        before = self._open.get(producer_id)
        is_aborted = marker is not None and before is not None and not marker.commit
        change = TransactionChange(producer_id, before, self.visible_end, is_aborted)
        if marker is not None:
            self._close(header, before, is_aborted)
        elif header.attributes & TRANSACTIONAL:
            self._open[producer_id] = _grown(before, header)
        else:
            self.visible_end = header.base_offset + header.last_offset_delta + 1
        return change

    def _close(self, header: FrameHeader, before: PartitionTransaction | None, is_aborted: bool) -> None:
        self._open.pop(header.producer_id, None)
        if before is None:
            return
        if not is_aborted:
            self.visible_end = max(self.visible_end, before.end_offset)
            return
        first_open = self.first_open_offset()
        totals = self._aborted[-1].totals if self._aborted else self._totals_before
        aborted = AbortedTransaction(
            header.producer_id,
            before.first_offset,
            header.base_offset,
            header.base_offset if first_open is None else first_open,
            _sum(totals, before.counts),
        )
        self._aborted.append(aborted)
        self._by_producer.setdefault(header.producer_id, []).append(aborted)

    def take_back(self, change: TransactionChange) -> None:
        """Undoes `record` after a write that failed; the last change first."""
        self._open.pop(change.producer_id, None)
        if change.before is not None:
            self._open[change.producer_id] = change.before
            self._open = dict(sorted(self._open.items(), key=lambda item: item[1].first_offset))
        self.visible_end = change.visible_end
        if change.has_aborted:
            self._aborted.pop()
            history = self._by_producer[change.producer_id]
            history.pop()
            if not history:
                del self._by_producer[change.producer_id]

    # what readers leave out

    def is_aborted(self, header: FrameHeader) -> bool:
        """Whether a data frame belongs to a transaction that was aborted."""
        return header.is_transactional and self.is_aborted_at(header.producer_id, header.base_offset)

    def is_aborted_at(self, producer_id: int, offset: int) -> bool:
        history = self._by_producer.get(producer_id)
        if history is None:
            return False
        at = bisect_right(history, offset, key=lambda aborted: aborted.first_offset) - 1
        return at >= 0 and offset < history[at].marker_offset

    def aborted_within(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with data or their marker in a range of offsets, in the order of their first
        offsets."""
        first = bisect_left(self._aborted, start, key=lambda aborted: aborted.marker_offset)
        last = bisect_left(self._aborted, end, lo=first, key=lambda aborted: aborted.stable)
        found = [aborted for aborted in self._aborted[first : last + 1] if aborted.first_offset < end]
        return sorted(found, key=lambda aborted: aborted.first_offset)

    def aborted_in_slice(self, start: int, end: int, size_bytes: int) -> list[AbortedTransaction]:
        """Like `aborted_within`, for frames of at most so many bytes from an offset on."""
        first = bisect_left(self._aborted, start, key=lambda aborted: aborted.marker_offset)
        beyond = first + size_bytes // HEADER_BYTES + 1  # every marker in between is a frame
        if beyond < len(self._aborted):
            end = min(end, self._aborted[beyond].marker_offset)
        return self.aborted_within(start, end)

    def aborted_counts(self, start: int, end: int) -> tuple[int, ...]:
        """Messages by priority of the transactions whose abort marker is between two offsets."""
        return tuple(
            b - a for a, b in zip(self._totals_below(start), self._totals_below(max(start, end)), strict=True)
        )

    def _totals_below(self, offset: int) -> tuple[int, ...]:
        count = bisect_left(self._aborted, offset, key=lambda aborted: aborted.marker_offset)
        return self._aborted[count - 1].totals if count else self._totals_before

    def forget_below(self, offset: int) -> None:
        """The log now begins at an offset: forgets what is below."""
        gone = bisect_left(self._aborted, offset, key=lambda aborted: aborted.marker_offset)
        if not gone:
            return
        for producer_id in {aborted.producer_id for aborted in self._aborted[:gone]}:
            history = self._by_producer[producer_id]
            del history[: bisect_left(history, offset, key=lambda aborted: aborted.marker_offset)]
            if not history:
                del self._by_producer[producer_id]
        self._totals_before = self._aborted[gone - 1].totals
        del self._aborted[:gone]

    # snapshots

    def snapshot(self) -> TransactionsSnapshot:
        """For a snapshot, to be encoded at once."""
        return TransactionsSnapshot(self._open, self._aborted, self._totals_before, self.visible_end)

    def restore(self, snapshot: TransactionsSnapshot) -> None:
        self._open, self._aborted = snapshot.open, snapshot.aborted
        self._totals_before, self.visible_end = snapshot.totals_before, snapshot.visible_end
        self._by_producer = {}
        for aborted in snapshot.aborted:
            self._by_producer.setdefault(aborted.producer_id, []).append(aborted)


def _grown(before: PartitionTransaction | None, header: FrameHeader) -> PartitionTransaction:
    counts = list(before.counts if before is not None else _NO_MESSAGES)
    counts[header.priority] += header.message_count
    first_offset = header.base_offset if before is None else before.first_offset
    return PartitionTransaction(header.producer_epoch, first_offset, header.next_offset, tuple(counts))


def _sum(some: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(some, more, strict=True))


@lru_cache(maxsize=16)
def build_marker(producer_id: int, epoch: int, marker: Marker) -> tuple[bytes, FrameHeader]:
    """The control frame that closes a transaction: the same in all partitions that are marked in one moment."""
    frame = single_frame(
        msgspec.msgpack.encode(marker),
        None,
        timestamp_ms=marker.at_ms,
        priority=Priority.NORMAL,
        identity=(producer_id, epoch, 0),
        attributes=TRANSACTIONAL | CONTROL,
    )
    return frame, unpack_header(frame)


def read_marker(frame: bytes | bytearray | memoryview, position: int = 0) -> Marker:
    """The content of a stored control frame."""
    [value] = open_frame(frame, position).values()
    try:
        return msgspec.msgpack.decode(value or b"", type=Marker)
    except msgspec.DecodeError as error:
        raise InvalidFrame(problem=f"it is a control frame without a marker ({error})") from error
