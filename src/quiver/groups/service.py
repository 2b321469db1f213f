"""Groups on their journal: every change is on disk before anybody sees it."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from quiver.groups.events import (
    Event,
    GroupCreated,
    GroupDeleted,
    GroupKind,
    QueuePaused,
    QueueResumed,
    SettingsChanged,
)
from quiver.groups.table import Group, GroupTable
from quiver.model.errors import CorruptData, GroupKindMismatch, GroupNotFound, GroupOrderingMismatch, QuiverError
from quiver.model.names import check_name
from quiver.model.queue import Ordering, Pause
from quiver.storage.journaled_state import EventCodec, JournaledState
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.key_locks import KeyLocks
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask

logger = logging.getLogger(__name__)

LOG_ID = "internal/groups"
_SNAPSHOT_CHECK_SECONDS = 1.0
_CODEC: EventCodec[Event] = EventCodec(msgspec.json.encode, msgspec.json.Decoder(Event).decode)


class Groups:
    """Which groups there are. A group's kind and ordering are fixed when it is created, at its first use."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._table = GroupTable()
        self._journaled = JournaledState(LOG_ID, self._table, _CODEC, clock=clock)
        self._last_id = 0
        self.locks = KeyLocks()
        """Held by everybody who changes a group, or needs it not to change."""
        self.task = PeriodicTask("groups", self._keep_up, every_seconds=_SNAPSHOT_CHECK_SECONDS)

    async def open(self, storage: Storage, epoch: int) -> None:
        """If the journal is damaged, `problem` is set and no group is known."""
        try:
            await self._journaled.open(storage, epoch)
        except CorruptData as error:
            logger.error("groups are not available until this is repaired: %s", error)
            return
        self.task.start()

    async def close(self) -> None:
        await self.task.stop()
        await self._journaled.close()

    @property
    def problem(self) -> QuiverError | None:
        """Why groups are not available; every request for them raises it."""
        return self._journaled.problem

    def check_readable(self) -> None:
        """Raises `problem`, if there is one."""
        if self._journaled.problem is not None:
            raise self._journaled.problem

    def group(self, name: str) -> Group:
        """Raises GroupNotFound if there is none."""
        group = self.find(name)
        if group is None:
            raise GroupNotFound(group=name)
        return group

    def find(self, name: str) -> Group | None:
        self.check_readable()
        return self._table.groups.get(name)

    def groups(self) -> Mapping[str, Group]:
        """By name."""
        self.check_readable()
        return self._table.groups

    def name_of(self, group_id: int) -> str | None:
        """None when there is no such group (any more)."""
        self.check_readable()
        return self._table.names.get(group_id)

    async def queue_group(self, name: str, ordering: Ordering | None) -> Group:
        """The queue group of a name, created at its first use.

        Raises GroupKindMismatch or GroupOrderingMismatch if the group is another kind or has another ordering. If no
        ordering is given, any is accepted, and a new group has ordering `none`.
        """
        group = self.find(name)
        if group is None:
            check_name(name, "group")
            async with self.locks.hold(name):
                group = self.find(name) or await self._create(name, "queue", ordering or "none")
        if group.kind != "queue":
            raise GroupKindMismatch(group=name, kind=group.kind)
        if ordering is not None and ordering != group.ordering:
            raise GroupOrderingMismatch(group=name, ordering=group.ordering)
        return group

    def check_stream_group(self, name: str) -> Group | None:
        """The stream group of a name; None if there is no group. Raises GroupKindMismatch if it is a queue group."""
        group = self.find(name)
        if group is not None and group.kind != "stream":
            raise GroupKindMismatch(group=name, kind=group.kind)
        return group

    async def stream_group(self, name: str) -> Group:
        """The stream group of a name, created at its first use. The caller holds the name's lock."""
        check_name(name, "group")
        return self.check_stream_group(name) or await self._create(name, "stream", "none")

    async def change_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        """Changes of one group are made one after another, each on the result of the one before."""
        async with self.locks.hold(name):
            changed = self.group(name).settings.changed(settings)
            await self._journaled.append(SettingsChanged(name, changed))

    async def pause(self, name: str, topic_id: int, reason: str) -> None:
        """A queue group gets nothing from a topic. Paused again, it stays so since the first time."""
        async with self.locks.hold(name):
            known = self._queue_group(name).paused.get(topic_id)
            pause = Pause(self._clock.now_ms() if known is None else known.since_ms, reason)
            if pause != known:
                await self._journaled.append(QueuePaused(name, topic_id, pause))

    async def resume(self, name: str, topic_id: int) -> None:
        """Does nothing if it is not paused there."""
        async with self.locks.hold(name):
            if topic_id in self._queue_group(name).paused:
                await self._journaled.append(QueueResumed(name, topic_id))

    def _queue_group(self, name: str) -> Group:
        group = self.group(name)
        if group.kind != "queue":
            raise GroupKindMismatch(group=name, kind=group.kind)
        return group

    async def delete(self, name: str) -> None:
        """The caller holds the name's lock, and has made sure that nobody uses the group."""
        await self._journaled.append(GroupDeleted(self.group(name).name))

    async def _create(self, name: str, kind: GroupKind, ordering: Ordering) -> Group:
        # Several groups may be written at the same time, so each takes its id before the write.
        self._last_id = max(self._last_id, self._table.last_id) + 1
        await self._journaled.append(GroupCreated(name, self._clock.now_ms(), self._last_id, kind, ordering))
        return self.group(name)

    async def _keep_up(self, failures: Failures) -> None:
        with failures.of("a snapshot of groups"):
            await self._journaled.snapshot_if_due()
