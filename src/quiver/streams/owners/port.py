"""What owners of groups and owners of partitions ask each other. With one process, each asks itself.

The owner of a group has its members and commits; the owner of a partition has its log, and what members of groups
have leased and acked there. Neither keeps what the other decides. A call names the commit that the asking side knows,
and the owner of the partition follows it before it answers.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from quiver.model.errors import QuiverError
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.queues.receive import Received


class Commit(NamedTuple):
    """A group's committed position in a partition; `version` counts the commits."""

    offset: int
    version: int


class PartitionFacts(NamedTuple):
    """What the owner of a partition knows of it, and of a group that uses it."""

    start: int
    """The first offset in the log."""
    end: int
    """The high watermark."""
    last_stable: int
    visible_end: int
    settled: int | None = None
    """Everything below was settled since the commit that the call names; None: no member has leased anything."""
    oldest_ms: int | None = None
    """When the first message that the group has not read was appended, if that was asked for."""


class PartToTake(NamedTuple):
    partition: TopicPartition
    ends_own: bool
    """The member had to give the partition up since: its old leases there are over."""


class PolledPartition(NamedTuple):
    topic: Topic
    partition: int
    received: list[Received]
    next_offset: int | None
    """The offset to commit when all these messages are processed. It stops at the first message that is neither
    settled nor in this response, for example one of a response that got lost. None if that leaves nothing to
    commit."""


class Claim(Protocol):
    """What a member may read, and where its group is. Asked again after every wait: it may have changed."""

    @property
    def group(self) -> str: ...

    @property
    def member_id(self) -> str: ...

    @property
    def generation(self) -> int: ...

    def is_current(self, partition: TopicPartition) -> bool:
        """Whether the partition is still the member's."""
        ...

    def commit(self, partition: TopicPartition) -> Commit | None:
        """None: the group has not begun there."""
        ...


class TakenMessages:
    """What a take has got so far. Whoever gives up on the take gives `polled` back."""

    __slots__ = ("polled", "problem", "reached")

    def __init__(self) -> None:
        self.polled: list[PolledPartition] = []
        self.reached: set[TopicPartition] = set()
        """Partitions in which nobody but the member has leases now."""
        self.problem: QuiverError | None = None
        """Of a partition that could not be read."""


class NewsWatch(Protocol):
    """Sets `news` when a partition may have something for a group."""

    news: asyncio.Event

    def extend(self) -> bool:
        """Begins to watch partitions of other processes. False: there are none. What came before is read again."""
        ...

    def seconds_to_retry(self) -> float:
        """The time until a message that is leased or given back here may be delivered again."""
        ...

    def close(self) -> None: ...


class PartitionOwners(Protocol):
    """Asked by the owner of a group. A partition that does not exist (any more) is left out of a result; the owner of
    others that does not respond is an error."""

    async def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks: no offset beyond can be committed."""
        ...

    async def facts(
        self, group_id: int, commits: Mapping[TopicPartition, Commit | None], *, with_age: bool = False
    ) -> dict[TopicPartition, PartitionFacts]: ...

    async def find(self, partitions: Collection[TopicPartition], position: Position) -> dict[TopicPartition, int]:
        """The offsets that a position means now."""
        ...

    async def follow(self, group_id: int, commits: Mapping[TopicPartition, Commit]) -> None:
        """The group has committed these. Returns when they hold for what members have leased; an owner that does not
        respond follows them before its next answer."""
        ...

    async def take(
        self, claim: Claim, parts: Sequence[PartToTake], *, limit: int, max_bytes: int, taken: TakenMessages
    ) -> None:
        """Leases messages to a member, and adds them to `taken`, which is right also if this is cancelled. A
        partition that cannot be read does not prevent reading the others."""
        ...

    async def give_back(self, polled: Sequence[PolledPartition]) -> None:
        """These did not reach the member: the delivery does not count."""
        ...

    def watch(self, group_id: int, partitions: Collection[TopicPartition]) -> NewsWatch: ...


class KnownCommits(NamedTuple):
    by_partition: dict[TopicPartition, dict[int, Commit]]
    """And by group id."""
    is_complete: bool = True
    """False: an owner of groups did not respond."""


class GroupOwners(Protocol):
    """Asked by the owner of a partition, and by owners of other groups."""

    async def commits(self, partitions: Collection[TopicPartition]) -> KnownCommits:
        """What groups have committed in partitions."""
        ...

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        """The positions of a stream group, by topic and partition."""
        ...


class QueueOwners(Protocol):
    """Asked by whoever resets or deletes a queue group: its state is with the partitions."""

    async def check_idle(self, group: str) -> None:
        """GroupNotEmpty while consumers wait anywhere."""
        ...

    async def settled_offsets(self, topic: Topic, group: str) -> dict[int, int]:
        """By partition, where the group has begun: everything below is settled."""
        ...

    async def rewind(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """The group begins again at these offsets."""
        ...

    async def group_deleted(self, group_id: int) -> None: ...
