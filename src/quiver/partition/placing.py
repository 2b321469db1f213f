"""Placing: what waits for the writer gets its offset, is recognised as a repeat, or is refused."""

import numpy as np

from quiver.model.errors import FrameTooLarge, MessageIdUndecided, OutOfSequence, QuiverError, TransactionConflict
from quiver.model.limits import Limits
from quiver.model.topic import TopicConfig
from quiver.partition.committed_view import CommittedView
from quiver.partition.fusion import FusedMessages
from quiver.partition.id_keys import Keys, id_keys
from quiver.partition.message_ids import MessageIds, Screening, first_entries
from quiver.partition.pending import (
    Appended,
    Duplicate,
    Frame,
    Pending,
    PendingFrame,
    PendingMarker,
    PendingRepeat,
    Placed,
    refuse,
)
from quiver.partition.state import SEQUENCE_LIMIT, ProducerTable, SentFrame
from quiver.partition.transactions import Marker, build_marker
from quiver.records.check import check_frame
from quiver.records.header import (
    COLUMN_DELIVER_AT,
    COLUMN_ID,
    FrameHeader,
    StampedFrame,
    stamp,
    unpack_header,
)
from quiver.records.thin import cut_frame
from quiver.storage.port import Log

_NOT_KNOWN = -1
"""The offset of a message that a repeat of its frame cannot be told any more."""


class Placing(CommittedView):
    """What a partition knows of producers, transactions and message ids, and the offsets it gives by that."""

    def __init__(
        self, name: str, log: Log, config: TopicConfig, *, epoch: int, limits: Limits, is_schedule: bool = False
    ) -> None:
        super().__init__(log, config)
        self.name = name
        self.epoch = epoch
        self._limits = limits
        self._producers = ProducerTable()
        self.message_ids = MessageIds(
            config.dedup_window_ms,
            settled_below=lambda: self.log.readable_offset,
            columns=COLUMN_ID | COLUMN_DELIVER_AT if is_schedule else COLUMN_ID,  # copies have no time
            delayed=is_schedule,
        )

    def _place(self, pending: Pending, now_ms: int, placed: Placed) -> None:
        if isinstance(pending, PendingMarker):
            self._place_marker(pending, now_ms, placed)
        elif isinstance(pending, FusedMessages):
            self._place_messages(pending, now_ms, placed)
        elif isinstance(pending, PendingFrame):
            self._place_frame(pending, now_ms, placed)

    def _place_marker(self, pending: PendingMarker, now_ms: int, placed: Placed) -> None:
        if not self.transactions.is_open(pending.producer_id, pending.epoch):
            placed.outcomes.append((pending, Appended(-1, now_ms, duplicate=True)))
            return
        marker = Marker(pending.commit, now_ms)
        frame = build_marker(pending.producer_id, pending.epoch, marker)
        stamped = self._stamped(frame, unpack_header(frame), now_ms, placed)
        self._record(stamped, placed, marker)
        closed = self.message_ids.close(stamped.header, commit=marker.commit)
        if closed is not None:
            placed.id_changes.append(closed)
        placed.outcomes.append((pending, Appended(stamped.header.base_offset, now_ms)))

    def _place_messages(self, pending: FusedMessages, now_ms: int, placed: Placed) -> None:
        keys: Keys | None = None
        if pending.has_ids and self.message_ids.window_ms:
            keys = self._leave_repeats_out(pending, now_ms, placed)
        if not pending.messages:
            return
        frame = pending.build(now_ms)
        stamped = self._stamped(frame, check_frame(frame, self._limits), now_ms, placed)
        self._record(stamped, placed)
        if keys is not None:
            self._record_ids(stamped.header, keys, placed, is_new=True)
        placed.outcomes.append((pending, Appended(stamped.header.base_offset, now_ms)))

    def _leave_repeats_out(self, pending: FusedMessages, now_ms: int, placed: Placed) -> Keys:
        """Answers the messages that are known; the keys of those that stay."""
        pending.sealed = True
        keys = id_keys(message.id for message in pending.messages)
        screening = self.message_ids.screen(keys, now_ms)
        for row in screening.undecided:
            refuse(PendingRepeat(pending.futures[row]), _undecided(pending.messages[row].id))
        gone = {*screening.repeats, *screening.within, *screening.undecided}
        if not gone:
            return keys
        kept = [row for row in range(len(keys)) if row not in gone]
        base, places = self._next_offset(placed), {row: place for place, row in enumerate(kept)}
        offsets = {row: base + places[first] for row, first in screening.within.items()}
        for duplicate in self._duplicates(screening, offsets):
            outcome = Appended(duplicate.offset, now_ms, duplicate=True, delayed=duplicate.delayed)
            placed.outcomes.append((PendingRepeat(pending.futures[duplicate.row]), outcome))
        pending.keep(kept)
        return [keys[row] for row in kept]

    def _place_frame(self, pending: PendingFrame, now_ms: int, placed: Placed) -> None:
        frame, header = pending.frame, pending.header
        keys = pending.ids.keys if pending.ids is not None and self.message_ids.window_ms else None
        try:
            repeat = self._find_repeat(header, keys, now_ms)
            self._check_transaction(header)
            if repeat is not None:
                placed.outcomes.append((pending, repeat))
                return
            duplicates: list[Duplicate] = []
            if keys is not None and pending.is_checked:
                duplicates = self._screened(pending, keys, now_ms, self._next_offset(placed))
            if len(duplicates) == header.record_count:
                self._pass_over(header, now_ms, placed)
                placed.outcomes.append((pending, _all_known(duplicates, now_ms)))
                return
            if duplicates:
                frame, header = self._cut(pending, duplicates)
        except QuiverError as error:
            refuse(pending, error)
            return
        stamped = self._stamped(frame, header, now_ms, placed)
        self._record(stamped, placed)
        if keys is not None:
            self._record_ids(stamped.header, _without(keys, duplicates), placed, is_new=pending.is_checked)
        answer = Appended(stamped.header.base_offset, now_ms, duplicates=tuple(duplicates))
        placed.outcomes.append((pending, answer))

    # message ids

    def _screened(self, pending: PendingFrame, keys: Keys, now_ms: int, base: int) -> list[Duplicate]:
        """The messages of a frame that are known, by row; MessageIdUndecided if it is not certain that one is."""
        screening = self.message_ids.screen(keys, now_ms, _transaction_of(pending.header))
        if screening.undecided:
            assert pending.ids is not None
            raise _undecided(pending.ids.opened.ids()[min(screening.undecided)])
        return self._duplicates(screening, {row: base + first for row, first in screening.within.items()})

    def _duplicates(self, screening: Screening, within: dict[int, int]) -> list[Duplicate]:
        """In order of rows; `within` has the offsets of those that repeat a message beside them."""
        known = [Duplicate(row, *first) for row, first in screening.repeats.items()]
        beside = [Duplicate(row, offset, self.message_ids.delayed) for row, offset in within.items()]
        return sorted(known + beside)

    def _cut(self, pending: PendingFrame, duplicates: list[Duplicate]) -> tuple[bytes, FrameHeader]:
        assert pending.ids is not None
        kept = np.ones(pending.header.record_count, np.bool_)
        kept[[duplicate.row for duplicate in duplicates]] = False
        frame = cut_frame(pending.header, pending.ids.opened.batch, kept)
        header = unpack_header(frame)
        if max(len(frame), header.uncompressed_length) > self._limits.frame_bytes:
            raise FrameTooLarge(
                f"without the messages that were published before, the frame has {header.uncompressed_length} bytes, "
                f"over the limit of {self._limits.frame_bytes}; send smaller batches"
            )
        return frame, header

    def _record_ids(self, header: FrameHeader, keys: Keys, placed: Placed, *, is_new: bool) -> None:
        offsets = range(header.base_offset, header.next_offset)
        placed.id_changes.append(self.message_ids.record(header, first_entries(keys, offsets), is_new=is_new))

    # producers

    def _find_repeat(self, header: FrameHeader, keys: Keys | None, now_ms: int) -> Appended | None:
        try:
            sent = self._producers.find_repeat(header)
        except OutOfSequence as error:
            behind = (error.details["expected"] - header.base_sequence) % SEQUENCE_LIMIT
            duplicates = self._known_again(header, keys, now_ms) if behind <= SEQUENCE_LIMIT // 2 else []
            # Of a frame of repeats alone nothing was stored, and so a restart does not know that it came.
            if len(duplicates) < header.record_count or any(each.offset == _NOT_KNOWN for each in duplicates):
                raise
            return _all_known(duplicates, now_ms)
        if sent is None:
            return None
        if sent.is_whole:
            return Appended(sent.base_offset, sent.append_time_ms, duplicate=True)
        return self._repeated(sent, self._known_again(header, keys, now_ms))

    def _repeated(self, sent: SentFrame, known: list[Duplicate]) -> Appended:
        """The answer for a frame that lost messages when it came first."""
        base = sent.base_offset
        duplicates = [each for each in known if base < 0 or each.offset != base + each.row]
        if base < 0 and duplicates:
            base = duplicates[0].offset
        return Appended(base, sent.append_time_ms, duplicate=True, duplicates=tuple(duplicates))

    def _known_again(self, header: FrameHeader, keys: Keys | None, now_ms: int) -> list[Duplicate]:
        """Where the messages are that have an id, of a frame that came before."""
        if keys is None:
            return []
        repeats = self.message_ids.screen(keys, now_ms, _transaction_of(header)).repeats
        rows = [row for row, key in enumerate(keys) if key is not None]
        return [Duplicate(row, *repeats.get(row, (_NOT_KNOWN, False))) for row in rows]

    def _pass_over(self, header: FrameHeader, now_ms: int, placed: Placed) -> None:
        """The producer has sent its frame, of which nothing is stored."""
        self._note_producer(header.producer_id, placed)
        self._producers.record(header._replace(base_offset=-1, append_time_ms=now_ms, record_count=0))

    def _check_transaction(self, header: FrameHeader) -> None:
        """A producer's earlier transaction, whose end is on its way here, must not get the frames of the next."""
        earlier = self.transactions.open.get(header.producer_id) if header.is_transactional else None
        if earlier is not None and earlier.epoch < header.producer_epoch:
            problem = f"the one before, of epoch {earlier.epoch}, has not ended in {self.name} yet"
            raise TransactionConflict(transaction=f"{header.producer_id}:{header.producer_epoch}", problem=problem)

    # offsets

    def _next_offset(self, placed: Placed) -> int:
        return placed.frames[-1].header.next_offset if placed.frames else self.log.end_offset

    def _stamped(self, frame: Frame, header: FrameHeader, now_ms: int, placed: Placed) -> StampedFrame:
        base = self._next_offset(placed)
        return stamp(frame, header, base_offset=base, leader_epoch=self.epoch, append_time_ms=now_ms)

    def _record(self, stamped: StampedFrame, placed: Placed, marker: Marker | None = None) -> None:
        self._note_producer(stamped.header.producer_id, placed)
        self._producers.record(stamped.header)
        placed.changes.append(self.transactions.record(stamped.header, marker))
        placed.frames.append(stamped)

    def _note_producer(self, producer_id: int, placed: Placed) -> None:
        if producer_id not in placed.undo:
            placed.undo[producer_id] = self._producers.get(producer_id)

    def _undo(self, placed: Placed) -> None:
        for producer_id, state in placed.undo.items():
            self._producers.put_back(producer_id, state)
        for change in reversed(placed.changes):
            self.transactions.take_back(change)
        for id_change in reversed(placed.id_changes):
            self.message_ids.take_back(id_change)


def _transaction_of(header: FrameHeader) -> tuple[int, int] | None:
    return (header.producer_id, header.producer_epoch) if header.is_transactional else None


def _undecided(id: bytes | None) -> MessageIdUndecided:
    return MessageIdUndecided(id=(id or b"").decode(errors="replace"))


def _all_known(duplicates: list[Duplicate], now_ms: int) -> Appended:
    """The answer for a frame of which nothing is new."""
    first = duplicates[0]
    return Appended(first.offset, now_ms, duplicate=True, delayed=first.delayed, duplicates=tuple(duplicates))


def _without(keys: Keys, duplicates: list[Duplicate]) -> Keys:
    if duplicates:
        keys = list(keys)
        for duplicate in duplicates:
            keys[duplicate.row] = None
    return keys
