"""The journal of stream groups, in shards: members and offsets of the groups that this process owns.

A group's definition is durable before the first record here, and is deleted before what is here is forgotten. So a
record of a group that is not known (any more) is ignored, both at start-up and while the broker runs.
"""

import logging
from collections.abc import Callable, Sequence

from quiver.cluster.placement import ALONE, Placement, shard_of_id
from quiver.groups.service import Groups
from quiver.model.errors import CorruptData, GroupNotFound, QuiverError, ShuttingDown
from quiver.storage.port import Storage
from quiver.streams.events import Event
from quiver.streams.journal.shard import StreamShard
from quiver.streams.state import StreamGroup
from quiver.system.clock import Clock
from quiver.system.pace import bounded_gather

logger = logging.getLogger(__name__)


class StreamJournal:
    def __init__(self, groups: Groups, *, clock: Clock, placement: Placement = ALONE) -> None:
        self._groups = groups
        self._subscribers: list[Callable[[Event], None]] = []
        self._shards = {
            number: StreamShard(number, clock=clock, is_known=self._is_known, on_applied=self._tell)
            for number in placement.owned_shards()
        }
        self._is_closing = False
        self.problem: QuiverError | None = None
        """Why stream groups are not available; every request for them raises it."""

    def subscribe(self, on_applied: Callable[[Event], None]) -> None:
        """Called in the step in which an event is applied, so nobody sees the event without its consequences."""
        self._subscribers.append(on_applied)

    async def open(self, storage: Storage, epoch: int) -> None:
        """Called when all groups are known. If a shard is damaged, `problem` is set."""
        group_ids = {group.id for group in self._groups.groups().values()}

        async def open_shard(shard: StreamShard) -> CorruptData | None:
            return await shard.open(storage, epoch, group_ids)

        for error in await bounded_gather(open_shard, list(self._shards.values())):
            if error is not None:
                logger.error("stream groups are not available until this is repaired: %s", error)
                self.problem = self.problem or error

    def begin_close(self) -> None:
        """Refuses later requests with ShuttingDown."""
        self._is_closing = True

    async def close(self) -> None:
        self.begin_close()
        await bounded_gather(_close, list(self._shards.values()))

    def check_open(self) -> None:
        if self._is_closing:
            raise ShuttingDown()
        self._check()

    def owns(self, group_id: int) -> bool:
        """Whether this process has the members and offsets of a group."""
        return shard_of_id(group_id) in self._shards

    def group(self, name: str) -> StreamGroup:
        """Raises GroupNotFound, also for a group of another process. A queue group has no members and no offsets."""
        self._check()
        group_id = self._groups.group(name).id
        return self._shard(group_id).table.group(group_id)

    def find(self, group_id: int) -> StreamGroup | None:
        """None for a group that has had neither members nor offsets here."""
        self._check()
        shard = self._shards.get(shard_of_id(group_id))
        return None if shard is None else shard.table.groups.get(group_id)

    def groups(self) -> Sequence[tuple[int, StreamGroup]]:
        """By id: the groups that have had members or offsets."""
        self._check()
        return [item for shard in self._shards.values() for item in shard.table.groups.items()]

    async def append(self, event: Event) -> None:
        """Returns once the event is on disk and applied."""
        self.check_open()
        await self._shard(event.group_id).journaled.append(event)

    async def snapshot_if_due(self) -> None:
        for shard in self._shards.values():
            await shard.journaled.snapshot_if_due()

    def forget(self, group_id: int) -> None:
        """The group was deleted."""
        if self.owns(group_id):
            self._shard(group_id).table.groups.pop(group_id, None)

    def _shard(self, group_id: int) -> StreamShard:
        shard = self._shards.get(shard_of_id(group_id))
        if shard is None:
            name = self._groups.name_of(group_id) or group_id
            raise GroupNotFound(f"members and offsets of group {name} are not here; ask their owner", group=name)
        return shard

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem

    def _is_known(self, group_id: int) -> bool:
        return self._groups.name_of(group_id) is not None

    def _tell(self, event: Event) -> None:
        for on_applied in self._subscribers:
            on_applied(event)


async def _close(shard: StreamShard) -> None:
    await shard.journaled.close()
