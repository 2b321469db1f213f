"""The transactions of a partition, from its log: which are open, and which were aborted."""

import msgspec

from quiver.model.errors import CorruptData
from quiver.model.limits import MIB
from quiver.partition.transactions import TransactionsSnapshot, TransactionTable, read_marker
from quiver.reader.log_reader import LogReader

_READ_BYTES = 4 * MIB
_WINDOW_BYTES = 8 * 1024


class _PartitionSnapshot(msgspec.Struct, array_like=True):
    """The part of a partition's snapshot that readers need."""

    producers: msgspec.Raw
    transactions: TransactionsSnapshot


class StoredTransactions:
    """The transactions up to the end of the log at its last refresh."""

    def __init__(self, log: LogReader) -> None:
        self._start, self._end = log.start_offset, log.end_offset
        self._table = _read_table(log)

    @property
    def committed_end(self) -> int:
        """Readers of committed messages stop here: where the first open transaction begins, or the log ends."""
        first_open = self._table.first_open_offset()
        return self._end if first_open is None else max(self._start, min(first_open, self._end))

    def aborted(self, start: int, stop: int) -> tuple[tuple[int, int, int], ...]:
        """(producer id, first offset, offset of the marker) of the aborted transactions that reach into a range, by
        first offset."""
        found = self._table.aborted_within(start, stop)
        return tuple((each.producer_id, each.first_offset, each.marker_offset) for each in found)


def _read_table(log: LogReader) -> TransactionTable:
    table, offset = TransactionTable(), log.start_offset
    snapshot = log.newest_snapshot(log.end_offset)
    if snapshot is not None:
        offset = max(offset, snapshot[0])
        table.restore(msgspec.msgpack.decode(snapshot[1], type=_PartitionSnapshot).transactions)
    while offset < log.end_offset:
        try:
            offset = _record(table, log, offset)
        except CorruptData as damage:
            offset = max(offset + 1, int(damage.details["next_offset"]))
    return table


def _record(table: TransactionTable, log: LogReader, offset: int) -> int:
    """Records some frames; returns where to continue."""
    stored = log.read(offset, max_bytes=_READ_BYTES)
    if stored is None:
        return log.end_offset
    with stored:
        frames = stored.frames(_WINDOW_BYTES)
        for position, header in frames.walk(stored.position):
            if header is None:
                break
            if header.next_offset > offset:
                marker = read_marker(frames.bytes_at(position, header.frame_bytes)) if header.is_control else None
                table.record(header, marker)
                offset = header.next_offset
    return offset
