"""What waits in the broker: lag, dead letters, delayed messages, open transactions. It takes searching to count."""

import contextlib
from typing import NamedTuple

from quiver.dead_letters.service import DeadLetters
from quiver.delays.service import Delays
from quiver.groups.service import Groups
from quiver.model.errors import QuiverError
from quiver.streams.lag import GroupLag
from quiver.system.pace import Pace, paced
from quiver.topics.partitions import Partitions
from quiver.transactions.service import Transactions


class Backlog(NamedTuple):
    lag_messages: int = 0
    """Messages that stream groups have not committed and queue groups could receive, over all groups."""
    dead_letters: int = 0
    delayed: int = 0
    open_transactions: int = 0
    log_bytes: int = 0
    groups: int = 0


class BacklogCounter:
    def __init__(
        self,
        groups: Groups,
        partitions: Partitions,
        lag: GroupLag,
        delays: Delays,
        transactions: Transactions,
        dead_letters: DeadLetters,
    ) -> None:
        self._groups = groups
        self._partitions = partitions
        self._lag = lag
        self._delays = delays
        self._transactions = transactions
        self._dead_letters = dead_letters

    async def count(self) -> Backlog:
        """In slices: others get their turns. What is deleted or damaged meanwhile counts as nothing."""
        lag_messages = 0
        names = list(self._groups.groups()) if self._groups.problem is None else []
        async for name in paced(names):
            with contextlib.suppress(QuiverError):
                lag_messages += sum([part.messages for part in await self._lag.of(name, with_age=False)])
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
