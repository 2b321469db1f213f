"""Decides about everything that waits for the writer: it gets an offset, is a repeat, or is refused."""

import logging

import numpy as np

from quiver.model.errors import MessageIdUndecided, OutOfSequence, QuiverError, TransactionConflict
from quiver.model.limits import SEQUENCE_LIMIT, Limits
from quiver.model.names import LeaderEpoch
from quiver.partition.id_keys import Keys, id_keys
from quiver.partition.message_ids import Screening, first_entries
from quiver.partition.pending import (
    Appended,
    Assigned,
    Duplicate,
    Frame,
    MessageBatch,
    Pending,
    PendingFrame,
    PendingMarker,
    PendingRepeat,
    refuse,
)
from quiver.partition.producers import SentFrame
from quiver.partition.tables import PartitionTables
from quiver.partition.traffic import Traffic
from quiver.partition.transactions import Marker, build_marker
from quiver.records.check import check_frame
from quiver.records.cut import cut_frame
from quiver.records.header import NO_PRODUCER, TRANSACTIONAL, FrameHeader, stamp, unpack_header

logger = logging.getLogger(__name__)

_NOT_KNOWN = -1
"""The offset in a response to a repeat, for a message whose offset is no longer known."""


class OffsetAssigner:
    """Assigns offsets according to the tables of producers, transactions and message ids, and records them there."""

    def __init__(
        self, name: str, tables: PartitionTables, traffic: Traffic, *, leader_epoch: LeaderEpoch, limits: Limits
    ) -> None:
        self.limits = limits
        self._traffic = traffic
        self._name = name
        self._leader_epoch = leader_epoch
        self._tables = tables
        self._producers = tables.producers
        self._transactions = tables.transactions
        self._message_ids = tables.message_ids

    def assign(self, pending: Pending, now_ms: int, assigned: Assigned) -> None:
        """Assigns one item. Any error refuses only this item and leaves no trace of it.

        Of messages that share a frame, only those that fit into no frame are refused.
        """
        if isinstance(pending, MessageBatch) and len(pending.messages) > 1:
            item = Assigned(assigned.next_offset)
            try:
                self._assign_messages(pending, now_ms, item)
            except Exception:
                self._tables.undo(item)
                for half in pending.halves():
                    self.assign(half, now_ms, assigned)
            else:
                assigned.extend(item)
        else:
            assigned.extend(self.assigned(pending, now_ms, assigned.next_offset))

    def assigned(self, pending: Pending, now_ms: int, next_offset: int) -> Assigned:
        """One item by itself; nothing when it is refused."""
        item = Assigned(next_offset)
        try:
            if isinstance(pending, PendingFrame):
                self._assign_frame(pending, now_ms, item)
            elif isinstance(pending, PendingMarker):
                self._assign_marker(pending, now_ms, item)
            elif isinstance(pending, MessageBatch):
                self._assign_messages(pending, now_ms, item)
        except Exception as error:
            self._tables.undo(item)
            refuse(pending, self.as_refusal(error), self._traffic)
            return Assigned(next_offset)
        return item

    def as_refusal(self, error: Exception) -> QuiverError:
        """The error for the client; unexpected ones are logged."""
        if isinstance(error, QuiverError):
            return error
        logger.error("writing to %s failed", self._name, exc_info=error)
        return QuiverError()

    def _assign_marker(self, pending: PendingMarker, now_ms: int, assigned: Assigned) -> None:
        if not self._transactions.is_open(pending.producer_id, pending.epoch):
            assigned.outcomes.append((pending, Appended(-1, now_ms, duplicate=True)))
            return
        marker = Marker(pending.commit, now_ms)
        frame, unstamped = build_marker(pending.producer_id, pending.epoch, marker)
        header = self._record(frame, unstamped, now_ms, assigned, marker)
        closed = self._message_ids.close(header, commit=marker.commit)
        if closed is not None:
            assigned.id_changes.append(closed)
        assigned.outcomes.append((pending, Appended(header.base_offset, now_ms)))

    def _assign_messages(self, pending: MessageBatch, now_ms: int, assigned: Assigned) -> None:
        keys: Keys | None = None
        if pending.has_ids and self._message_ids.window_ms:
            pending, keys = self._without_repeats(pending, now_ms, assigned)
        if not pending.messages:
            return
        frame = pending.build(now_ms)
        header = self._record(frame, check_frame(frame, self.limits), now_ms, assigned)
        if keys is not None:
            self._record_ids(header, keys, assigned, is_new=True)
        assigned.outcomes.append((pending, Appended(header.base_offset, now_ms)))

    def _without_repeats(self, pending: MessageBatch, now_ms: int, assigned: Assigned) -> tuple[MessageBatch, Keys]:
        """Resolves the messages that are known, and returns the others with their keys."""
        keys = id_keys(message.id for message in pending.messages)
        screening = self._message_ids.screen(keys, now_ms)
        for row in screening.undecided:
            refuse(PendingRepeat(pending.futures[row]), _undecided(pending.messages[row].id), self._traffic)
        gone = {*screening.repeats, *screening.within, *screening.undecided}
        if not gone:
            return pending, keys
        kept = [row for row in range(len(keys)) if row not in gone]
        for duplicate in self._duplicates(screening, kept, assigned.next_offset):
            outcome = Appended(duplicate.offset, now_ms, duplicate=True, delayed=duplicate.delayed)
            assigned.outcomes.append((PendingRepeat(pending.futures[duplicate.row]), outcome))
        return pending.chosen(kept), [keys[row] for row in kept]

    def _assign_frame(self, pending: PendingFrame, now_ms: int, assigned: Assigned) -> None:
        header = pending.header
        try:
            sent = None if header.producer_id == NO_PRODUCER else self._producers.find_repeat(header)
            if header.attributes & TRANSACTIONAL:
                self._check_transaction(header)
            if sent is not None:
                assigned.outcomes.append((pending, self._repeated(pending, sent, now_ms)))
            elif pending.ids is not None and self._message_ids.window_ms:
                self._assign_named(pending, pending.ids.keys, now_ms, assigned)
            else:
                base = assigned.next_offset
                self._record(pending.frame, header, now_ms, assigned)
                assigned.outcomes.append((pending, Appended(base, now_ms)))
        except OutOfSequence as error:
            self._assign_late(pending, error, now_ms, assigned)

    def _assign_named(self, pending: PendingFrame, keys: Keys, now_ms: int, assigned: Assigned) -> None:
        """A frame with ids, without the messages that are known."""
        frame, header = pending.frame, pending.header
        duplicates: list[Duplicate] = []
        if pending.is_checked:
            duplicates = self._screened(pending, keys, now_ms, assigned.next_offset)
        if len(duplicates) == header.record_count:
            self._pass_over(header, now_ms, assigned)
            assigned.outcomes.append((pending, _all_known(duplicates, now_ms)))
            return
        if duplicates:
            frame, keys = _cut(pending, duplicates)
            header = unpack_header(frame)
        header = self._record(frame, header, now_ms, assigned, left_out=len(duplicates))
        self._record_ids(header, keys, assigned, is_new=pending.is_checked)
        assigned.outcomes.append((pending, Appended(header.base_offset, now_ms, duplicates=tuple(duplicates))))

    # message ids

    def _screened(self, pending: PendingFrame, keys: Keys, now_ms: int, base: int) -> list[Duplicate]:
        """The messages of a frame that are known, by row. Raises MessageIdUndecided if one may still be aborted."""
        screening = self._message_ids.screen(keys, now_ms, _transaction_of(pending.header))
        if screening.undecided:
            assert pending.ids is not None
            raise _undecided(pending.ids.opened.ids()[min(screening.undecided)])
        gone = {*screening.repeats, *screening.within}
        return self._duplicates(screening, [row for row in range(len(keys)) if row not in gone], base) if gone else []

    def _duplicates(self, screening: Screening, kept: list[int], base: int) -> list[Duplicate]:
        """In order of rows; those that are kept get consecutive offsets from a base."""
        offsets = {row: base + place for place, row in enumerate(kept)} if screening.within else {}
        known = [Duplicate(row, *first) for row, first in screening.repeats.items()]
        delayed = self._message_ids.delayed
        return sorted(known + [Duplicate(row, offsets[first], delayed) for row, first in screening.within.items()])

    def _record_ids(self, header: FrameHeader, keys: Keys, assigned: Assigned, *, is_new: bool) -> None:
        offsets = range(header.base_offset, header.next_offset)
        assigned.id_changes.append(self._message_ids.record(header, first_entries(keys, offsets), is_new=is_new))

    # producers

    def _assign_late(self, pending: PendingFrame, error: OutOfSequence, now_ms: int, assigned: Assigned) -> None:
        """A frame of a passed sequence that is not remembered: it is a repeat if all its messages are.

        Nothing is stored of a frame that has only repeats, so it is unknown after a restart.
        """
        behind = (error.details["expected"] - pending.header.base_sequence) % SEQUENCE_LIMIT
        duplicates = self._known_again(pending, now_ms) if behind <= SEQUENCE_LIMIT // 2 else []
        if len(duplicates) < pending.header.record_count or any(each.offset == _NOT_KNOWN for each in duplicates):
            refuse(pending, error, self._traffic)
        else:
            assigned.outcomes.append((pending, _all_known(duplicates, now_ms)))

    def _repeated(self, pending: PendingFrame, sent: SentFrame, now_ms: int) -> Appended:
        if not sent.left_out:
            return Appended(sent.base_offset, sent.append_time_ms, duplicate=True)
        return _repeated_in_part(sent, self._known_again(pending, now_ms))

    def _known_again(self, pending: PendingFrame, now_ms: int) -> list[Duplicate]:
        """The offsets of the messages with an id, for a frame that came before."""
        if pending.ids is None or not self._message_ids.window_ms:
            return []
        keys = pending.ids.keys
        repeats = self._message_ids.screen(keys, now_ms, _transaction_of(pending.header)).repeats
        rows = [row for row, key in enumerate(keys) if key is not None]
        return [Duplicate(row, *repeats.get(row, (_NOT_KNOWN, False))) for row in rows]

    def _pass_over(self, header: FrameHeader, now_ms: int, assigned: Assigned) -> None:
        """Remembers a frame of a producer of which nothing is stored."""
        self._note_producer(header.producer_id, assigned)
        nothing = header._replace(base_offset=-1, append_time_ms=now_ms, record_count=0, last_offset_delta=-1)
        self._producers.record(nothing, left_out=header.record_count)

    def _check_transaction(self, header: FrameHeader) -> None:
        """A producer's earlier transaction whose marker is not here yet must not get the frames of the next one."""
        earlier = self._transactions.open.get(header.producer_id)
        if earlier is not None and earlier.epoch < header.producer_epoch:
            problem = f"the one before, of epoch {earlier.epoch}, has no marker in {self._name} yet"
            raise TransactionConflict(transaction=f"{header.producer_id}:{header.producer_epoch}", problem=problem)

    # offsets

    def _record(
        self,
        frame: Frame,
        header: FrameHeader,
        now_ms: int,
        assigned: Assigned,
        marker: Marker | None = None,
        left_out: int = 0,
    ) -> FrameHeader:
        """Gives a frame its offset; returns its header with it."""
        base = assigned.next_offset
        stamped = stamp(frame, header, base_offset=base, leader_epoch=self._leader_epoch, append_time_ms=now_ms)
        header = stamped.header
        if header.producer_id != NO_PRODUCER:
            self._note_producer(header.producer_id, assigned)
            self._producers.record(header, left_out)
        assigned.changes.append(self._transactions.record(header, marker))
        assigned.frames.append(stamped)
        assigned.next_offset = base + header.last_offset_delta + 1
        return header

    def _note_producer(self, producer_id: int, assigned: Assigned) -> None:
        if producer_id not in assigned.undo:
            assigned.undo[producer_id] = self._producers.get(producer_id)


def _transaction_of(header: FrameHeader) -> tuple[int, int] | None:
    return (header.producer_id, header.producer_epoch) if header.is_transactional else None


def _undecided(id: bytes | None) -> MessageIdUndecided:
    return MessageIdUndecided(id=(id or b"").decode(errors="replace"))


def _all_known(duplicates: list[Duplicate], now_ms: int) -> Appended:
    """The response to a frame in which nothing is new."""
    first = duplicates[0]
    return Appended(first.offset, now_ms, duplicate=True, delayed=first.delayed, duplicates=tuple(duplicates))


def _cut(pending: PendingFrame, duplicates: list[Duplicate]) -> tuple[bytearray, Keys]:
    """The frame without the messages that are known, and the keys of the others."""
    assert pending.ids is not None
    kept = np.ones(pending.header.record_count, np.bool_)
    kept[[duplicate.row for duplicate in duplicates]] = False
    keys = [key for key, is_kept in zip(pending.ids.keys, kept.tolist(), strict=True) if is_kept]
    return cut_frame(pending.header, pending.ids.opened.batch, kept), keys


def _repeated_in_part(sent: SentFrame, known: list[Duplicate]) -> Appended:
    """The response to a repeat of a frame that lost messages the first time; `known` are those with ids.

    The messages that were left out are elsewhere. If the numbers do not match, because ids were forgotten or used
    again since, only certain offsets are returned.
    """
    rows = {each.row: each for each in known}
    duplicates: list[Duplicate] = []
    place = sent.base_offset
    for row in range(sent.record_count):
        found = rows.get(row)
        if found is None or found.offset in (place, _NOT_KNOWN):
            place += 1
        else:
            duplicates.append(found)
    if len(duplicates) != sent.left_out:
        duplicates = [rows.get(row, Duplicate(row, _NOT_KNOWN)) for row in range(sent.record_count)]
    base = sent.base_offset if sent.left_out < sent.record_count else duplicates[0].offset
    return Appended(base, sent.append_time_ms, duplicate=True, duplicates=tuple(duplicates))
