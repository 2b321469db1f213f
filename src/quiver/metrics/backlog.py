"""What waits in the broker: lag, dead letters, delayed messages, open transactions. It takes searching to count."""

import contextlib
from typing import NamedTuple

from quiver.dead_letters.service import DeadLetters
from quiver.delays.service import Delays
from quiver.model.errors import QuiverError
from quiver.streams.stats.lag import GroupLag, PartitionLag
from quiver.system.pace import Pace, paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.transactions.service import Transactions


class Backlog(NamedTuple):
    lag_messages: int = 0
    """Messages that stream groups have not committed and queue groups could receive, now or after an earlier one of
    the same key, over all groups."""
    dead_letters: int = 0
    delayed: int = 0
    open_transactions: int = 0
    log_bytes: int = 0
    groups: int = 0


class GroupBacklog(NamedTuple):
    """Of a group in a topic."""

    topic_id: int
    group_id: int
    is_queue: bool
    lag_messages: int
    lag_ms: int
    """Age of the oldest message that the group has not read, or not settled."""
    leased: int
    retrying: int
    blocked_keys: int


class BacklogCounter:
    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        lag: GroupLag,
        delays: Delays,
        transactions: Transactions,
        dead_letters: DeadLetters,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._groups = lag.groups
        self._lag = lag
        self._delays = delays
        self._transactions = transactions
        self._dead_letters = dead_letters
        self.groups: list[GroupBacklog] = []
        """By topic and group, as they were counted last."""

    async def _of_group(self, name: str) -> list[GroupBacklog]:
        group, by_topic = self._groups.group(name), dict[str, list[PartitionLag]]()
        for part in await self._lag.of(name):
            by_topic.setdefault(part.topic, []).append(part)
        return [
            GroupBacklog(
                self._catalogue.topic(topic).id,
                group.id,
                group.kind == "queue",
                sum([part.messages for part in parts]),
                max([part.time_ms for part in parts]),
                sum([part.leased for part in parts]),
                sum([part.retrying for part in parts]),
                sum([part.blocked_keys for part in parts]),
            )
            for topic, parts in by_topic.items()
        ]

    async def count(self) -> Backlog:
        """In slices: others get their turns. What is deleted or damaged meanwhile counts as nothing."""
        names = list(self._groups.groups())
        groups: list[GroupBacklog] = []
        async for name in paced(names):
            with contextlib.suppress(QuiverError):
                groups += await self._of_group(name)
        self.groups = groups
        lag_messages = sum([group.lag_messages for group in groups])
        delayed = log_bytes = 0
        pace = Pace()
        for topic_id, partitions in self._partitions.by_topic():
            await pace.turn()
            delayed += self._delays.pending_count(topic_id)
            log_bytes += sum([partition.log.size_bytes for partition in partitions])
        return Backlog(
            lag_messages,
            await self._dead_letters.total(),
            delayed,
            (await self._transactions.stats()).active,
            log_bytes,
            len(names),
        )
