"""Idempotent producers: what a partition remembers about each, and whether it accepts the next frame.

Sequences count messages, begin at 0 in every epoch and wrap at 2**31. The last 16 frames of a producer are
remembered, and a client never has more in flight, so every repeat of a frame is recognised. Pure: no clock, no I/O.
"""

from typing import NamedTuple

import msgspec

from quiver.model.errors import OutOfSequence, ProducerFenced, UnknownProducer
from quiver.model.limits import FRAMES_REMEMBERED, PRODUCER_REMEMBERED_MS, PRODUCERS_REMEMBERED, SEQUENCE_LIMIT
from quiver.records.header import COLUMN_ID, CONTROL, NO_PRODUCER, FrameHeader

FIRST_RELAY_ID = 1 << 62
"""Producer ids from here on belong to the broker's own moves between logs. They are never forgotten, and a frame of
theirs is a repeat exactly if its sequence was passed before: a target without memory of them accepts the next
one."""


class SentFrame(NamedTuple):
    base_sequence: int
    record_count: int
    base_offset: int
    """-1: nothing was stored, every message was known by its id."""
    append_time_ms: int
    left_out: int = 0
    """Messages that were not stored, because they were known by their ids."""


class ProducerState(NamedTuple):
    epoch: int
    next_sequence: int
    frames: tuple[SentFrame, ...]
    """The newest last."""

    @property
    def last_append_ms(self) -> int:
        return self.frames[-1].append_time_ms


class ProducerTable:
    """All producers of one partition, least recently active first."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}
        self._relays: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers) + len(self._relays)

    def find_repeat(self, header: FrameHeader) -> SentFrame | None:
        """The frame this one repeats, or None when it is the producer's next one.

        Raises ProducerFenced for an old epoch, OutOfSequence for a gap or a repeat too old to be remembered, and
        Raises UnknownProducer if a frame that is not a producer's first comes from a producer that is not remembered.
        """
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER:
            return None
        if producer_id >= FIRST_RELAY_ID:
            known = self._relays.get(producer_id)
            if known is None or not self.passed(producer_id, header.base_sequence):
                return None
            return _passed_frame(known, header.base_sequence)
        known = self._producers.get(producer_id)
        if known is None:
            if header.base_sequence != 0:
                raise UnknownProducer(producer_id=header.producer_id)
            return None
        if header.producer_epoch < known.epoch:
            raise ProducerFenced(producer_id=header.producer_id, epoch=header.producer_epoch, current=known.epoch)
        expected = known.next_sequence if header.producer_epoch == known.epoch else 0
        if header.base_sequence == expected:
            return None
        if header.producer_epoch == known.epoch:
            for place, frame in enumerate(known.frames):
                if (frame.base_sequence, frame.record_count) == (header.base_sequence, header.record_count):
                    return frame
                if frame.base_sequence == header.base_sequence and _may_be_cut(frame, header):
                    return self._learn(header, known, place)
        raise OutOfSequence(producer_id=header.producer_id, sequence=header.base_sequence, expected=expected)

    def _learn(self, header: FrameHeader, known: ProducerState, place: int) -> SentFrame:
        """Replaying the log does not tell how many messages of a frame were left out; a repeat of the frame does."""
        frames = list(known.frames)
        left_out = header.record_count - frames[place].record_count
        frames[place] = frames[place]._replace(record_count=header.record_count, left_out=left_out)
        next_sequence = known.next_sequence
        if place == len(frames) - 1:
            next_sequence = (header.base_sequence + header.record_count) % SEQUENCE_LIMIT
        self._producers[header.producer_id] = ProducerState(known.epoch, next_sequence, tuple(frames))
        return frames[place]

    def record(self, header: FrameHeader, left_out: int = 0) -> None:
        """Remembers a frame that has its offset, both for live appends and for replays.

        Messages that were `left_out` of it count: the producer has numbered them.
        """
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER:
            return
        producers = self._relays if producer_id >= FIRST_RELAY_ID else self._producers
        known = producers.pop(producer_id, None)
        if header.attributes & CONTROL:
            # The transaction has ended: late frames of its epoch are refused, and the next epoch begins at 0.
            if known is None or known.epoch <= header.producer_epoch:
                marker = SentFrame(-1, 0, header.base_offset, header.append_time_ms)
                known = ProducerState(header.producer_epoch + 1, 0, (marker,))
            producers[producer_id] = known
            self._limit()
            return
        frames = known.frames if known is not None and known.epoch == header.producer_epoch else ()
        # compaction may have left fewer
        count = header.last_offset_delta + 1 + left_out
        sent = SentFrame(header.base_sequence, count, header.base_offset, header.append_time_ms, left_out)
        producers[producer_id] = ProducerState(
            header.producer_epoch,
            (header.base_sequence + count) % SEQUENCE_LIMIT,
            (*frames[1 - FRAMES_REMEMBERED :], sent),
        )
        if len(producers) > PRODUCERS_REMEMBERED:
            self._limit()

    def _limit(self) -> None:
        if len(self._producers) > PRODUCERS_REMEMBERED:
            del self._producers[next(iter(self._producers))]

    def get(self, producer_id: int) -> ProducerState | None:
        return self._table_of(producer_id).get(producer_id)

    def passed(self, relay: int, sequence: int) -> int:
        """How many messages from a sequence on a relay has appended already."""
        known = self.get(relay)
        ahead = 0 if known is None else (known.next_sequence - sequence) % SEQUENCE_LIMIT
        return ahead if ahead <= SEQUENCE_LIMIT // 2 else 0

    def put_back(self, producer_id: int, state: ProducerState | None) -> None:
        """Undoes `record` after a write that failed."""
        producers = self._table_of(producer_id)
        producers.pop(producer_id, None)
        if state is not None:
            producers[producer_id] = state

    def expire(self, now_ms: int) -> None:
        """Forgets producers that have been silent for a day."""
        for producer_id, state in list(self._producers.items()):
            if state.last_append_ms + PRODUCER_REMEMBERED_MS < now_ms:
                del self._producers[producer_id]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode({**self._producers, **self._relays})

    @classmethod
    def decode(cls, data: bytes) -> "ProducerTable":
        table = cls()
        for producer_id, state in msgspec.msgpack.decode(data, type=dict[int, ProducerState]).items():
            table._table_of(producer_id)[producer_id] = state
        return table

    def replace(self, other: "ProducerTable") -> None:
        """Takes over the content of another table."""
        self._producers, self._relays = other._producers, other._relays

    def _table_of(self, producer_id: int) -> dict[int, ProducerState]:
        """The table that contains it."""
        return self._relays if producer_id >= FIRST_RELAY_ID else self._producers


def _may_be_cut(frame: SentFrame, header: FrameHeader) -> bool:
    """Whether this is that frame, some messages of which were left out the first time."""
    return bool(header.columns & COLUMN_ID) and 0 < frame.record_count < header.record_count and not frame.left_out


def _passed_frame(known: ProducerState, sequence: int) -> SentFrame:
    """The frame that was passed. For one that is too old to be remembered, only that is known."""
    found = (frame for frame in known.frames if frame.base_sequence == sequence)
    return next(found, SentFrame(sequence, 0, -1, known.last_append_ms))
