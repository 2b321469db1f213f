"""Sequences of idempotent producers: each occurs once, and they increase within an epoch.

A producer numbers its messages from 0 in every epoch, up to 2**31, in each partition. Numbers may be missing: of
messages that were duplicates by their ids, or that are delayed and wait in the schedule log. Pure.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quiver.model.limits import FRAMES_REMEMBERED, SEQUENCE_LIMIT
from quiver.records.header import NO_PRODUCER, FrameHeader


class Repeat(NamedTuple):
    """A frame with sequence numbers that its producer had used before."""

    offset: int
    last_offset: int
    sentence: str
    is_copy: bool
    """A frame before it begins with the same number."""


class ProducerEnds(msgspec.Struct, array_like=True, frozen=True):
    """What a range of a log has of one producer: its first frame and its last."""

    producer_id: int
    first_epoch: int
    first_sequence: int
    first_offset: int
    first_last_offset: int
    epoch: int
    next_sequence: int
    last_base: int
    last_offset: int


class _Producer:
    __slots__ = ("epoch", "first", "next_sequence", "recent")

    def __init__(self, header: FrameHeader) -> None:
        self.first = (header.producer_epoch, header.base_sequence, header.base_offset, header.last_offset)
        self.epoch = -1
        self.next_sequence = 0
        self.recent: deque[tuple[int, int]] = deque(maxlen=FRAMES_REMEMBERED)
        """Base sequence and offset of the last frames of the epoch."""


class ProducerSequences:
    """Along one range of a log, frame by frame."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def check(self, header: FrameHeader) -> Repeat | None:
        """Takes the next frame of the log; markers and frames without a producer have no number."""
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER or header.is_control:
            return None
        known = self._producers.get(producer_id)
        if known is None:
            known = self._producers[producer_id] = _Producer(header)
        epoch, sequence = header.producer_epoch, header.base_sequence
        next_sequence = (sequence + header.last_offset_delta + 1) % SEQUENCE_LIMIT
        if epoch > known.epoch:
            known.epoch, known.next_sequence = epoch, next_sequence
            known.recent.clear()
        elif epoch < known.epoch or is_passed(sequence, known.next_sequence):
            earlier = (
                next((at for base, at in known.recent if base == sequence), None) if epoch == known.epoch else None
            )
            return _repeat(header.producer_id, epoch, sequence, header.base_offset, header.last_offset,
                           known.epoch, known.next_sequence, earlier)  # fmt: skip
        else:
            known.next_sequence = next_sequence
        known.recent.append((sequence, header.base_offset))
        return None

    def ends(self) -> Iterator[ProducerEnds]:
        for producer_id, known in self._producers.items():
            last_base, last_offset = known.recent[-1]
            yield ProducerEnds(producer_id, *known.first, known.epoch, known.next_sequence, last_base, last_offset)


class JoinedSequences:
    """From one range of a log to the next."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerEnds] = {}

    def check(self, ends: ProducerEnds) -> Repeat | None:
        known = self._producers.get(ends.producer_id)
        if known is None or ends.first_epoch > known.epoch:
            self._producers[ends.producer_id] = ends
            return None
        is_same = ends.first_epoch == known.epoch
        if is_same and not is_passed(ends.first_sequence, known.next_sequence):
            self._producers[ends.producer_id] = ends
            return None
        if ends.epoch > known.epoch or (
            ends.epoch == known.epoch and not is_passed(ends.next_sequence, known.next_sequence)
        ):
            self._producers[ends.producer_id] = ends
        earlier = known.last_offset if is_same and ends.first_sequence == known.last_base else None
        return _repeat(ends.producer_id, ends.first_epoch, ends.first_sequence, ends.first_offset,
                       ends.first_last_offset, known.epoch, known.next_sequence, earlier)  # fmt: skip


def is_passed(sequence: int, next_sequence: int) -> bool:
    """Whether a number lies before the next one, on a circle of 2**31."""
    return (sequence - next_sequence) % SEQUENCE_LIMIT > SEQUENCE_LIMIT // 2


def _repeat(
    producer_id: int,
    epoch: int,
    sequence: int,
    offset: int,
    last_offset: int,
    known_epoch: int,
    next_sequence: int,
    earlier: int | None,
) -> Repeat:
    who = f"producer {producer_id} epoch {epoch}"
    if epoch < known_epoch:
        sentence = f"{who} writes after its epoch {known_epoch}, which fenced it"
    elif earlier is not None:
        sentence = f"{who} sequence {sequence} is there twice: the first is at offset {earlier}"
    else:
        sentence = f"{who} goes back to sequence {sequence} after it had come to {next_sequence}"
    return Repeat(offset, last_offset, sentence, earlier is not None)
