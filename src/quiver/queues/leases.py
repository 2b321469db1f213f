"""Who holds which message of a queue group until when, and which keys wait for what. Changes nothing."""

from collections.abc import Iterable
from typing import NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import shown, whole_number
from quiver.model.settlement import Receipt
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import HeldRun
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue

_BLOCKED_KEYS_SHOWN = 100


class HeldMessage(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    """Only in groups ordered by key."""
    consumer: str
    attempt: int
    first_delivered_ms: int
    until_ms: int
    """When the lease ends, by the wall clock."""
    receipt: str


class WaitingKey(NamedTuple):
    key: bytes
    partition: int
    offset: int
    """Of the message that the others wait for."""
    waiting: int


class LeaseCursor(NamedTuple):
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


class LeasePage(NamedTuple):
    leases: list[HeldMessage]
    """By partition and offset."""
    blocked_keys: list[WaitingKey]
    """Those with the most messages that wait, in all partitions."""
    next: LeaseCursor | None
    """None after the last page."""


def parse_lease_cursor(text: str) -> LeaseCursor:
    numbers = [whole_number(part) for part in text.split(":")]
    match numbers:
        case [int(partition), int(offset)]:
            return LeaseCursor(partition, offset)
    raise InvalidRequest(problem=f"cursor: {shown(text)} is not the `next` of a page of leases")


def merged_leases(pages: Iterable[LeasePage], limit: int) -> LeasePage:
    """Pages of several processes, each of which begins at the same place."""
    pages = list(pages)
    leases = sorted((lease for page in pages for lease in page.leases), key=lambda lease: lease[:2])
    following = min((page.next for page in pages if page.next is not None), default=None)
    if following is not None:  # what comes after it is not complete
        leases = [lease for lease in leases if lease[:2] < following]
    if len(leases) > limit:
        following = LeaseCursor(*leases[limit][:2])
    blocked = sorted((key for page in pages for key in page.blocked_keys), key=lambda key: -key.waiting)
    return LeasePage(leases[:limit], blocked[:_BLOCKED_KEYS_SHOWN], following)


class HeldKey(NamedTuple):
    """What a consumer holds of a key in one partition."""

    partition: int
    lease_id: int
    offset: int
    """Of the first message."""
    attempt: int
    runs: list[tuple[int, int]]
    """All messages, if they were asked for."""


class HeldLease(NamedTuple):
    runs: list[tuple[int, int]]
    """The first message of each key that the lease still holds."""
    until_ms: int
    """By the wall clock."""


class QueueLeases:
    def __init__(self, queues: Queues, catalogue: TopicCatalogue) -> None:
        self._queues = queues
        self._catalogue = catalogue

    async def page(self, topic: str, group: str, *, limit: int, after: LeaseCursor | None = None) -> LeasePage:
        """About `limit` messages. GroupNotFound also when the group has never used the topic."""
        self._queues.depths.check_use(group, self._catalogue.topic(topic))
        return await self.owned(topic, group, limit=limit, after=after)

    async def owned(self, topic: str, group: str, *, limit: int, after: LeaseCursor | None = None) -> LeasePage:
        """In the partitions of this process, whether or not it knows that the group uses the topic."""
        found = self._catalogue.topic(topic)
        group_id = self._queues.depths.group_id(group)
        at = after or LeaseCursor(0, 0)
        leases: list[HeldMessage] = []
        blocked: list[WaitingKey] = []
        following: LeaseCursor | None = None
        now_ms = self._queues.lease_clock.now_ms()
        async for number, queue in paced(sorted(self._queues.partition_queues(found.id).items())):
            state = queue.state(group_id)
            if state is None:
                continue
            keys = state.blocked(now_ms, _BLOCKED_KEYS_SHOWN)
            blocked += [WaitingKey(key, number, offset, waiting) for key, waiting, offset in keys]
            if following is None and number >= at.partition:
                room = limit - len(leases)
                start = at.offset if number == at.partition else 0
                runs, rest = state.held(start, room)
                leases += [message for run in runs for message in _messages(topic, queue, group_id, run)]
                following = None if rest is None else LeaseCursor(number, rest)
        blocked.sort(key=lambda key: -key.waiting)
        return LeasePage(leases, blocked[:_BLOCKED_KEYS_SHOWN], following)

    async def of_key(self, topic_id: int, group_id: int, key: bytes, *, with_runs: bool = False) -> list[HeldKey]:
        """In the partitions where a consumer holds the key now, in a group ordered by key: usually one."""
        found: list[HeldKey] = []
        now_ms = self._queues.lease_clock.now_ms()
        for number, queue in self._queues.partition_queues(topic_id).items():
            state = queue.state(group_id)
            held = state.key_lease(key, with_runs=with_runs) if isinstance(state, LaneState) else None
            if held is not None and held.deadline_ms > now_ms:
                found.append(HeldKey(number, held.lease, held.offset, held.attempt, held.runs))
        return found

    async def of_lease(self, topic_id: int, partition: int, group_id: int, lease_id: int) -> HeldLease | None:
        """None when the lease has expired, or everything in it is settled; for groups ordered by key."""
        queue = self._queues.partition_queues(topic_id).get(partition)
        state = None if queue is None else queue.state(group_id)
        held = state.leased_keys(lease_id) if isinstance(state, LaneState) else None
        if queue is None or held is None or held.deadline_ms <= self._queues.lease_clock.now_ms():
            return None
        return HeldLease(held.runs, queue.shown_ms(held.deadline_ms) or 0)


def _messages(topic: str, queue: PartitionQueue, group_id: int, run: HeldRun) -> list[HeldMessage]:
    partition, until_ms = queue.place.partition, queue.shown_ms(run.deadline_ms) or 0
    return [
        HeldMessage(
            partition,
            offset,
            run.key,
            run.consumer,
            run.attempt,
            run.first_delivered_ms,
            until_ms,
            str(Receipt(topic, partition, offset, run.attempt, group_id, run.lease)),
        )
        for offset in range(run.start, run.end)
    ]
