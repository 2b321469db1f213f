"""Which messages a group has settled, for settlements that are sent again."""

from collections.abc import Sequence

from quiver.model.errors import CorruptData, OffsetOutOfRange
from quiver.partition.partition import Partition
from quiver.queues.partition.frame_cache import FrameCache
from quiver.queues.partition.queue_group import QueueGroup
from quiver.queues.state.port import LEVELS, Run
from quiver.structures.interval_set import IntervalSet


class SettledMessages:
    """Belongs to a partition."""

    def __init__(self, partition: Partition, frames: FrameCache) -> None:
        self._partition = partition
        self._frames = frames

    async def among(self, group: QueueGroup, runs: Sequence[Run]) -> IntervalSet:
        """Never more than is known: of a damaged frame, nothing is."""
        by_level = [group.settled(runs, level) for level in range(1 if group.is_in_order else LEVELS)]
        if all(settled == by_level[0] for settled in by_level):
            return by_level[0]
        found = IntervalSet()  # levels were read to different offsets, and only the log says which level each is of
        for start, end in runs:
            await self._add(group, start, end, found)
        return found

    async def _add(self, group: QueueGroup, start: int, end: int, found: IntervalSet) -> None:
        while start < end:
            try:
                frames = await self._frames.load(self._partition, start)
            except CorruptData as damage:
                start = max(start + 1, int(damage.details["next_offset"]))
                continue
            except OffsetOutOfRange:
                gone = min(end, self._partition.log.start_offset)
                if start >= gone:
                    return
                found.add(start, gone)
                start = gone
                continue
            for frame in frames:
                if start < (stop := min(end, frame.end)):
                    for settled in group.settled([(start, stop)], frame.header.priority):
                        found.add(*settled)
                    start = stop
            if not frames:
                return
