"""Messages of a transaction as frames, and what became of each message. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from quiver.messages.publish import Published
from quiver.model.message import NewMessage
from quiver.model.topic import Topic
from quiver.model.transaction import ProducerKey
from quiver.partition.pending import Appended
from quiver.records.build import build_frame
from quiver.structures.murmur2 import partition_for

_MOST_MESSAGES = 10_000


class Push(NamedTuple):
    topic: Topic
    message: NewMessage
    """With a key."""


class FramePlace(NamedTuple):
    topic_id: int
    partition_count: int
    partition: int
    priority: int
    is_delayed: bool


class PushFrame(NamedTuple):
    place: FramePlace
    indexes: list[int]
    """Of its messages among the pushes of the transaction, in the order of the frame."""
    sequence: int

    def build(self, pushes: Sequence[Push], producer: ProducerKey, now_ms: int) -> bytearray:
        messages = [pushes[index].message for index in self.indexes]
        stamps = [now_ms if each.timestamp_ms is None else each.timestamp_ms for each in messages]
        return build_frame(
            [each.value for each in messages],
            keys=[each.key for each in messages],
            timestamps_ms=stamps,
            headers=[each.headers for each in messages],
            deliver_at_ms=[each.deliver_at_ms if self.place.is_delayed else None for each in messages],
            ids=[each.id for each in messages],
            priority=self.place.priority,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )

    def outcomes(self, appended: Appended) -> Iterator[tuple[int, Published]]:
        """By the index of each message."""
        known = {each.row: each for each in appended.duplicates}
        offset = appended.base_offset
        for row, index in enumerate(self.indexes):
            duplicate = known.get(row)
            if duplicate is not None:
                yield index, Published(self.place.partition, duplicate.offset, True, duplicate.delayed)
            else:
                yield index, Published(self.place.partition, offset, appended.duplicate, appended.delayed)
                offset += 1


def frames_of(pushes: Sequence[Push], frame_bytes: int, now_ms: int) -> list[PushFrame]:
    """In the order in which they are to be sent: per partition, messages keep their order."""
    found: list[PushFrame] = []
    sent: dict[tuple[int, int, bool], int] = {}
    for place, indexes in _by_place(pushes, now_ms).items():
        line = (place.topic_id, place.partition, place.is_delayed)
        for part in _parts(pushes, indexes, frame_bytes // 2):
            found.append(PushFrame(place, part, sent.get(line, 0)))
            sent[line] = sent.get(line, 0) + len(part)
    return found


def _by_place(pushes: Sequence[Push], now_ms: int) -> dict[FramePlace, list[int]]:
    found: dict[FramePlace, list[int]] = {}
    for index, (topic, message) in enumerate(pushes):
        number, count = message.partition, topic.config.partitions
        if number is None:
            number = partition_for(message.key or b"", count)
        is_delayed = message.deliver_at_ms is not None and message.deliver_at_ms > now_ms
        found.setdefault(FramePlace(topic.id, count, number, message.priority, is_delayed), []).append(index)
    return found


def _parts(pushes: Sequence[Push], indexes: Iterable[int], most_bytes: int) -> Iterator[list[int]]:
    part: list[int] = []
    size = 0
    for index in indexes:
        message = pushes[index].message
        more = len(message.value or b"") + len(message.key or b"") + 256
        if part and (size + more > most_bytes or len(part) >= _MOST_MESSAGES):
            yield part
            part, size = [], 0
        part.append(index)
        size += more
    if part:
        yield part
