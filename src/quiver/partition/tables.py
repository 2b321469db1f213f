"""What a partition knows besides its messages: producers, transactions and message ids. Pure: no I/O."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from quiver.partition.id_keys import Keys
from quiver.partition.message_ids import MessageIds, MessageIdsSnapshot, first_entries
from quiver.partition.pending import Assigned
from quiver.partition.producers import ProducerTable
from quiver.partition.transactions import Marker, TransactionsSnapshot, TransactionTable
from quiver.records.header import FrameHeader


class StoredIds(NamedTuple):
    """The message ids of a stored frame."""

    keys: Keys
    offsets: Sequence[int]


class _PartitionSnapshot(msgspec.Struct, array_like=True):
    producers: bytes
    transactions: TransactionsSnapshot
    message_ids: MessageIdsSnapshot = MessageIdsSnapshot()


class EncodedSnapshot(msgspec.Struct, array_like=True):
    """A snapshot that is being written: everything that could change meanwhile is encoded already."""

    producers: bytes
    transactions: msgspec.Raw
    message_ids: MessageIdsSnapshot


class PartitionTables:
    __slots__ = ("message_ids", "producers", "transactions")

    def __init__(self, producers: ProducerTable, transactions: TransactionTable, message_ids: MessageIds) -> None:
        self.producers = producers
        self.transactions = transactions
        self.message_ids = message_ids

    def record_stored(self, header: FrameHeader, marker: Marker | None, ids: StoredIds | None) -> None:
        """Replays a frame at start-up, with its content if it is a marker, and its ids if they count."""
        self.producers.record(header)
        self.transactions.record(header, marker)
        if marker is not None:
            self.message_ids.close(header, commit=marker.commit)
        elif ids is not None:
            self.message_ids.record(header, first_entries(*ids), is_new=False)
            self.message_ids.written()

    def undo(self, assigned: Assigned) -> None:
        """Undoes what was recorded for frames that could not be written."""
        for producer_id, state in assigned.undo.items():
            self.producers.put_back(producer_id, state)
        for change in reversed(assigned.changes):
            self.transactions.take_back(change)
        for id_change in reversed(assigned.id_changes):
            self.message_ids.take_back(id_change)

    def snapshot(self) -> EncodedSnapshot:
        transactions = msgspec.Raw(msgspec.msgpack.encode(self.transactions.snapshot()))
        return EncodedSnapshot(self.producers.encode(), transactions, self.message_ids.snapshot())

    def restore(self, data: bytes) -> None:
        """msgspec.DecodeError or ValueError if it is not a snapshot; then only message ids may have changed."""
        snapshot = msgspec.msgpack.decode(data, type=_PartitionSnapshot)
        producers = ProducerTable.decode(snapshot.producers)
        self.message_ids.restore(snapshot.message_ids)
        self.producers.replace(producers)
        self.transactions.restore(snapshot.transactions)
