"""Which partition a receive is served from: those that may have messages available, and whose turn it is."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quiver.partition.partition import Partition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.state.port import LEVELS, GroupState
from quiver.structures.deficit_round_robin import DeficitRoundRobin
from quiver.system.clock import Clock
from quiver.system.pace import Pace

ALL_LEVELS = (1 << LEVELS) - 1
_PROBED_AT_ONCE = 64
_NOTHING = [0] * LEVELS


class Pick(NamedTuple):
    level: int
    partition: int
    want: int
    """How many to take there, at most."""


class FairScheduler:
    """Whose turn it is: among levels by weight, among the partitions of a level one after the other. Pure.

    Whoever calls `pick` reports by `served` how many messages it got.
    """

    def __init__(self) -> None:
        self._rings: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(LEVELS)]
        self._settings: tuple[tuple[int, ...], int] = ((), 0)
        self._levels = DeficitRoundRobin([1] * LEVELS, starvation_ms=1)
        self._is_shared = False

    def configure(self, weights: Sequence[int], starvation_ms: int) -> None:
        """Shares begin again when they change."""
        settings = (tuple(weights), starvation_ms)
        if settings != self._settings:
            self._settings = settings
            self._levels = DeficitRoundRobin(weights, starvation_ms=starvation_ms)

    @property
    def any(self) -> bool:
        return any(self._rings)

    def add(self, level: int, partition: int) -> None:
        """The partition may have messages of the level. One that is there keeps its place, a new one goes last."""
        self._rings[level][partition] = None

    def pick(self, want: int, now_ms: int, levels: int = ALL_LEVELS) -> Pick | None:
        """The next to take from, among the levels whose bits are set; a single level is not charged for it."""
        if want < 1:
            return None
        ready = [want if ring and levels >> level & 1 else 0 for level, ring in enumerate(self._rings)]
        self._is_shared = bool(levels & (levels - 1))
        if self._is_shared:
            choice = self._levels.next(ready, now_ms, want)
        else:
            choice = next(((level, count) for level, count in enumerate(ready) if count), None)
        if choice is None:
            return None
        level, count = choice
        return Pick(level, next(iter(self._rings[level])), count)

    def served(self, pick: Pick, count: int, *, has_more: bool) -> None:
        """`count` messages were taken of the last pick. Without more, the partition is left out until it is added."""
        if self._is_shared and count < pick.want:
            self._levels.give_back(pick.level, pick.want - count)
        ring = self._rings[pick.level]
        if not has_more:
            ring.pop(pick.partition, None)
        elif pick.partition in ring:
            ring.move_to_end(pick.partition)


class AvailablePartitions:
    """Where a group may have messages available in a topic.

    Nothing loops over all partitions: those in which something happens are put into `news`, and are looked at when a
    receiver wants messages.
    """

    def __init__(self, group_id: int, queues: Mapping[int, PartitionQueue], lease_clock: Clock) -> None:
        self._group_id = group_id
        self._queues = queues
        self._clock = lease_clock
        self._partitions: dict[int, Partition] = {}
        self.news: set[int] = set()
        """Partitions that may have messages available, and were not looked at since."""
        self.unprobed: dict[int, None] = {}
        """Partitions with messages from before the start, whose levels are not known yet."""
        self.failed: dict[int, Exception] = {}
        """Partitions that could not be probed."""
        self._floors: dict[int, list[int]] = {}
        """Of partitions that were probed, by level: there is nothing unread below."""
        self.scheduler = FairScheduler()

    def add(self, number: int, partition: Partition) -> None:
        self._partitions[number] = partition
        self.news.add(number)

    def rewound(self, number: int) -> None:
        """The group begins elsewhere in the partition: what is known of its levels is out of date."""
        self._floors.pop(number, None)
        self.news.add(number)

    def state(self, number: int) -> GroupState | None:
        queue = self._queues.get(number)
        return None if queue is None else queue.state(self._group_id)

    @property
    def may_have_any(self) -> bool:
        return bool(self.news or self.unprobed) or self.scheduler.any

    async def sort_news(self) -> None:
        """Adds partitions that have something to the scheduler."""
        now_ms, pace = self._clock.now_ms(), Pace()
        while self.news:
            await pace.turn()
            if not self.news:
                return
            number = self.news.pop()
            state = self.state(number)
            available = _NOTHING if state is None else state.available(now_ms)
            unread = self._unread_levels(number, state)
            if len(unread) > 1 and number not in self._floors:
                self.unprobed[number] = None
            for level in range(LEVELS):
                if available[level] or (level in unread and number not in self.unprobed):
                    self.scheduler.add(level, number)

    async def probe(self) -> None:
        """Finds the levels of messages that were stored before the broker was started.

        In a slice of the partitions, or in as many as it takes to find something.
        """
        looks = 0
        while self.unprobed and (looks < _PROBED_AT_ONCE or not self.scheduler.any):
            number = next(iter(self.unprobed))
            partition, at = self._partitions[number], self._lowest_position(number)
            end, looks = partition.committed.high_watermark, looks + 1
            try:
                counts = await partition.log.count_by_priority(at) if at < end else _NOTHING
                if self._lowest_position(number) < at:
                    continue  # it was rewound meanwhile
                self._floors[number] = [0 if count else end for count in counts]
                self.news.add(number)
            except Exception as error:
                self.failed[number] = error
            self.unprobed.pop(number, None)
            await self.sort_news()

    def has_more(self, pick: Pick, available: int) -> bool:
        """Whether there is more where `available` messages are left of what was read ahead."""
        return available > 0 or pick.level in self._unread_levels(pick.partition, self.state(pick.partition))

    def _unread_levels(self, number: int, state: GroupState | None) -> list[int]:
        """The levels that may have messages which were not read ahead."""
        partition = self._partitions[number]
        newest, stable = partition.committed.newest, partition.committed.last_stable
        floors = self._floors.get(number, _NOTHING)
        if state is None:
            positions = [partition.log.start_offset] * LEVELS
        else:
            positions = [state.position(level) for level in range(LEVELS)]
        return [level for level in range(LEVELS) if min(newest[level], stable) > max(positions[level], floors[level])]

    def _lowest_position(self, number: int) -> int:
        start, state = self._partitions[number].log.start_offset, self.state(number)
        return start if state is None else max(start, min(state.position(level) for level in range(LEVELS)))
