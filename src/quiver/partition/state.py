"""Idempotent producers: what a partition remembers of each, and what it answers to the next frame.

Sequences count messages, begin at 0 in every epoch and wrap at 2**31. The last 16 frames of a producer are
remembered, and a client never has more in flight, so every repeat of a frame is recognised. Pure: no clock, no I/O.
"""

from typing import NamedTuple

import msgspec

from quiver.model.errors import OutOfSequence, ProducerFenced, UnknownProducer
from quiver.records.header import NO_PRODUCER, FrameHeader

SEQUENCE_LIMIT = 2**31
FRAMES_REMEMBERED = 16
EXPIRY_MS = 24 * 3_600_000
PRODUCERS_REMEMBERED = 10_000
FIRST_MOVER_ID = 1 << 62
"""Producer ids from here on belong to the broker's own moves between logs. They are never forgotten, and a frame of
theirs is a repeat exactly if its sequence was passed before: a target that lost its memory takes what comes next."""


class SentFrame(NamedTuple):
    base_sequence: int
    record_count: int
    base_offset: int
    append_time_ms: int


class ProducerState(NamedTuple):
    epoch: int
    next_sequence: int
    frames: tuple[SentFrame, ...]
    """The newest last."""

    @property
    def last_append_ms(self) -> int:
        return self.frames[-1].append_time_ms


class ProducerTable:
    """All producers of one partition, least recently heard of first."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def find_repeat(self, header: FrameHeader) -> SentFrame | None:
        """The frame this one repeats, or None when it is the producer's next one.

        Raises ProducerFenced for an old epoch, OutOfSequence for a gap or a repeat too old to be remembered, and
        UnknownProducer when a frame that is not a producer's first comes from a producer that is not remembered.
        """
        if header.producer_id == NO_PRODUCER:
            return None
        known = self._producers.get(header.producer_id)
        if header.producer_id >= FIRST_MOVER_ID:
            return _find_moved(known, header.base_sequence)
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
            for frame in known.frames:
                if (frame.base_sequence, frame.record_count) == (header.base_sequence, header.record_count):
                    return frame
        raise OutOfSequence(producer_id=header.producer_id, sequence=header.base_sequence, expected=expected)

    def record(self, header: FrameHeader) -> None:
        """Remembers a frame that has its place in the log; live appends and replays alike."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER:
            return
        known = self._producers.pop(producer_id, None)
        frames = known.frames if known is not None and known.epoch == header.producer_epoch else ()
        sent = SentFrame(header.base_sequence, header.record_count, header.base_offset, header.append_time_ms)
        self._producers[producer_id] = ProducerState(
            header.producer_epoch,
            (header.base_sequence + header.record_count) % SEQUENCE_LIMIT,
            (*frames, sent)[-FRAMES_REMEMBERED:],
        )
        if len(self._producers) > PRODUCERS_REMEMBERED:
            oldest = next((id for id in self._producers if id < FIRST_MOVER_ID), producer_id)
            del self._producers[oldest]

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def put_back(self, producer_id: int, state: ProducerState | None) -> None:
        """Undoes `record` after a write that failed."""
        self._producers.pop(producer_id, None)
        if state is not None:
            self._producers[producer_id] = state

    def expire(self, now_ms: int) -> None:
        """Forgets producers that have been silent for a day."""
        for producer_id, state in list(self._producers.items()):
            if producer_id < FIRST_MOVER_ID and state.last_append_ms + EXPIRY_MS < now_ms:
                del self._producers[producer_id]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self._producers)

    @classmethod
    def decode(cls, data: bytes) -> "ProducerTable":
        table = cls()
        table._producers = msgspec.msgpack.decode(data, type=dict[int, ProducerState])
        return table


def _find_moved(known: ProducerState | None, sequence: int) -> SentFrame | None:
    """As find_repeat, for moves. Of a repeat that is too old to be remembered only the fact is known."""
    if known is None or not 0 < (known.next_sequence - sequence) % SEQUENCE_LIMIT <= SEQUENCE_LIMIT // 2:
        return None
    found = (frame for frame in known.frames if frame.base_sequence == sequence)
    return next(found, SentFrame(sequence, 0, -1, known.last_append_ms))
