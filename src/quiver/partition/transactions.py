"""Transactions as one partition sees them: which are open, where its stable part ends, what was aborted.

Data frames of a transaction lie in the log as they come. A marker, which is a control frame under the same producer
id and epoch, closes the transaction in this partition and says whether it counts. Pure: no clock, no I/O.
"""

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from quiver.model.errors import InvalidFrame
from quiver.records.build import build_frame
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame


class Marker(msgspec.Struct, frozen=True, array_like=True):
    """What a control frame says."""

    commit: bool
    at_ms: int


class OpenTransaction(NamedTuple):
    epoch: int
    first_offset: int


class AbortedTransaction(NamedTuple):
    """Frames of the producer from the first offset up to the marker do not count."""

    producer_id: int
    first_offset: int
    marker_offset: int


class Change(NamedTuple):
    """What `record` did, for `take_back`."""

    producer_id: int
    before: OpenTransaction | None
    has_aborted: bool


Image = tuple[dict[int, OpenTransaction], dict[int, list[AbortedTransaction]]]


class TransactionTable:
    def __init__(self) -> None:
        self._open: dict[int, OpenTransaction] = {}
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        """By producer, in the order of the log."""

    @property
    def open(self) -> dict[int, OpenTransaction]:
        """By producer id."""
        return self._open

    def first_open_offset(self) -> int | None:
        """Where the earliest open transaction begins: readers of committed messages stop there."""
        return min((transaction.first_offset for transaction in self._open.values()), default=None)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        found = self._open.get(producer_id)
        return found is not None and found.epoch == epoch

    def record(self, header: FrameHeader, marker: Marker | None) -> "Change":
        """A frame has its place in the log: a data frame, or a marker with what it says."""
        producer_id, before = header.producer_id, self._open.get(header.producer_id)
        if marker is None:
            if header.is_transactional and before is None:
                self._open[producer_id] = OpenTransaction(header.producer_epoch, header.base_offset)
            return Change(producer_id, before, False)
        self._open.pop(producer_id, None)
        if before is None or marker.commit:
            return Change(producer_id, before, False)
        aborted = AbortedTransaction(producer_id, before.first_offset, header.base_offset)
        self._aborted.setdefault(producer_id, []).append(aborted)
        return Change(producer_id, before, True)

    def take_back(self, change: "Change") -> None:
        """Undoes `record` after a write that failed; the last change first."""
        if change.before is None:
            self._open.pop(change.producer_id, None)
        else:
            self._open[change.producer_id] = change.before
        if change.has_aborted:
            self._aborted[change.producer_id].pop()

    def is_aborted(self, header: FrameHeader) -> bool:
        """Whether a data frame belongs to a transaction that was aborted."""
        if not header.is_transactional:
            return False
        history = self._aborted.get(header.producer_id)
        if history is None:
            return False
        at = bisect_right(history, header.base_offset, key=lambda aborted: aborted.first_offset) - 1
        return at >= 0 and header.base_offset < history[at].marker_offset

    def aborted_within(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those that have data or their marker in a range of offsets, in the order of their first offsets."""
        found = [
            aborted
            for history in self._aborted.values()
            for aborted in history
            if aborted.first_offset < end and aborted.marker_offset >= start
        ]
        return sorted(found, key=lambda aborted: aborted.first_offset)

    def forget_below(self, offset: int) -> None:
        """The log begins at an offset now."""
        for producer_id, history in list(self._aborted.items()):
            kept = [aborted for aborted in history if aborted.marker_offset >= offset]
            if kept:
                self._aborted[producer_id] = kept
            else:
                del self._aborted[producer_id]

    def image(self) -> Image:
        """For a snapshot, to be encoded at once."""
        return self._open, self._aborted

    def restore(self, image: Image) -> None:
        self._open, self._aborted = image


def build_marker(producer_id: int, epoch: int, marker: Marker) -> bytes:
    """The control frame that closes a transaction."""
    return build_frame(
        [msgspec.msgpack.encode(marker)],
        timestamp_ms=marker.at_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
        control=True,
    )


def read_marker(frame: bytes | bytearray | memoryview, position: int = 0) -> Marker:
    """What a stored control frame says."""
    [value] = open_frame(frame, position).values()
    try:
        return msgspec.msgpack.decode(value or b"", type=Marker)
    except msgspec.DecodeError as error:
        raise InvalidFrame(problem=f"it is a control frame without a marker ({error})") from error
