"""The partitions of a queue: the keys of its topic, counted once and then as messages arrive."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from quiver.messages.fetch import FetchOptions, FetchPart, release
from quiver.model.errors import OffsetOutOfRange
from quiver.model.limits import MIB
from quiver.model.topic import Topic
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.arrow_arrays import mask_array
from quiver.records.columns import KEY
from quiver.records.read import open_frame, split_frames
from quiver.system.pace import Pace

if TYPE_CHECKING:
    from quiver.routing.facade import Facade
    from quiver.topics.details import TopicDetails

_READ_BYTES = 4 * MIB
_COUNTED_AT_ONCE = 100_000
"""Messages of a partition of the broker, for lists of many queues."""
_REMEMBERED = 1_000
"""Topics whose counts stay in memory."""


class _Counted:
    """What one partition of the broker has."""

    def __init__(self, start: int) -> None:
        self.start, self.next = start, start
        self.keys: Counter[bytes] = Counter()

    def begin_again(self, error: OffsetOutOfRange) -> bool:
        """Whether the partition begins later now: messages were removed while they were counted."""
        earliest: int = error.details["earliest"]
        if earliest <= self.next:
            return False
        self.start = self.next = earliest
        self.keys.clear()
        return True


class PartitionIndex:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker
        self._topics: OrderedDict[int, dict[int, _Counted]] = OrderedDict()
        self._counting = asyncio.Lock()

    async def counts(self, topic: Topic, details: "TopicDetails", *, is_complete: bool) -> Counter[bytes]:
        """How many messages each partition has in the log. What retention has removed is counted no more.

        Unless it has to be complete, some of what was not counted before is left for the next time if it is much.
        """
        async with self._counting:
            known = self._topics.setdefault(topic.id, {})
            self._topics.move_to_end(topic.id)
            while len(self._topics) > _REMEMBERED:
                self._topics.popitem(last=False)
            found: Counter[bytes] = Counter()
            for part in details.partitions:
                counted = known.get(part.partition)
                if counted is None or counted.start != part.start_offset:
                    counted = known[part.partition] = _Counted(part.start_offset)
                await self._count(topic.id, part.partition, counted, None if is_complete else _COUNTED_AT_ONCE)
                found.update(counted.keys)
            return found

    async def _count(self, topic_id: int, number: int, counted: _Counted, most: int | None) -> None:
        pace, first = Pace(), counted.next
        while most is None or counted.next < first + most:
            part = FetchPart(topic_id, number, counted.next, _READ_BYTES)
            answer = await self._broker.fetch([part], FetchOptions(0, 0, _READ_BYTES))
            [fetched] = answer
            try:
                if isinstance(fetched.error, OffsetOutOfRange) and counted.begin_again(fetched.error):
                    continue
                if fetched.error is not None:
                    raise fetched.error
                if fetched.slice is None or not fetched.slice.length:
                    return
                data = await fetched.slice.read()
            finally:
                release(answer)
            before = counted.next
            for keys in _keys(data, counted, fetched.aborted):
                counted.keys.update(keys)
                await pace.turn()
            if counted.next == before:
                return


def _keys(
    data: bytes | memoryview, counted: _Counted, aborted: tuple[tuple[int, int], ...]
) -> Iterator[dict[bytes, int]]:
    """How often each key occurs, frame by frame."""
    hidden = AbortedFrames(aborted)
    view = memoryview(data)
    for position, header in split_frames(data):
        if not hidden.hides(header) and header.next_offset > counted.next:
            yield _frame_keys(view[position : position + header.frame_bytes], counted.next)
        counted.next = max(counted.next, header.next_offset)


def _frame_keys(frame: memoryview, first: int) -> dict[bytes, int]:
    opened = open_frame(frame)
    column = opened.column(KEY)
    if column is None:
        return {}
    if opened.header.base_offset < first:
        column = column.filter(mask_array(np.asarray(opened.offsets()) >= first))
    found = column.value_counts()
    pairs = zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)
    return {key: count for key, count in pairs if key is not None}
