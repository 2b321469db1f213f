"""Definitions of groups: a view of coordination, in which a change is durable before anybody sees it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from quiver.cluster.placement import new_group_id
from quiver.coordination.counter import Counter
from quiver.coordination.port import Change, Delete, Put
from quiver.coordination.view import View
from quiver.groups.events import GROUPS, IDS_KEY, Group, GroupKind, GroupStored, event_of, group_key
from quiver.groups.table import GroupTable
from quiver.model.errors import GroupKindMismatch, GroupNotFound, GroupOrderingMismatch
from quiver.model.names import check_name
from quiver.model.queue import Ordering, Pause
from quiver.system.clock import Clock
from quiver.system.key_locks import KeyLocks

_IDS_BLOCK = 1000


class Groups:
    """Which groups there are. A group's kind and ordering are fixed when it is created, at its first use."""

    def __init__(self, view: View, *, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._table = GroupTable()
        self._ids = Counter(view, IDS_KEY, block=_IDS_BLOCK)
        self._subscribers: list[Callable[[Group], None]] = []
        self.locks = KeyLocks()
        """Held by everybody in this process who changes a group, or needs it not to change."""
        view.follow(GROUPS, self._apply)

    def subscribe(self, on_change: Callable[[Group], None]) -> None:
        """Called when a group is new or changed, whoever changed it. While the broker is built."""
        self._subscribers.append(on_change)

    def _apply(self, change: Change) -> None:
        event = event_of(change)
        self._table.apply(event)
        if isinstance(event, GroupStored):
            for on_change in self._subscribers:
                on_change(self._table.groups[event.group.name])

    def group(self, name: str) -> Group:
        """Raises GroupNotFound if there is none."""
        group = self.find(name)
        if group is None:
            raise GroupNotFound(group=name)
        return group

    def find(self, name: str) -> Group | None:
        return self._table.groups.get(name)

    def groups(self) -> Mapping[str, Group]:
        """By name."""
        return self._table.groups

    def name_of(self, group_id: int) -> str | None:
        """None when there is no such group (any more)."""
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
        if self.check_stream_group(name) is None:
            await self._create(name, "stream", "none")
        group = self.check_stream_group(name)
        if group is None:
            raise GroupNotFound(group=name)
        return group

    async def change_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        """Changes of one group are made one after another, each on the result of the one before."""
        async with self.locks.hold(name):
            while True:
                group = self.group(name)
                changed = group.settings.changed(settings)
                if changed == group.settings or await self._store(msgspec.structs.replace(group, settings=changed)):
                    return

    async def pause(self, name: str, topic_id: int, reason: str) -> None:
        """A queue group gets nothing from a topic. Paused again, it stays so since the first time."""
        async with self.locks.hold(name):
            while True:
                group = self._queue_group(name)
                known = group.paused.get(topic_id)
                pause = Pause(self._clock.now_ms() if known is None else known.since_ms, reason)
                paused = {**group.paused, topic_id: pause}
                if pause == known or await self._store(msgspec.structs.replace(group, paused=paused)):
                    return

    async def resume(self, name: str, topic_id: int) -> None:
        """Does nothing if it is not paused there."""
        async with self.locks.hold(name):
            while topic_id in (group := self._queue_group(name)).paused:
                paused = {id: pause for id, pause in group.paused.items() if id != topic_id}
                if await self._store(msgspec.structs.replace(group, paused=paused)):
                    return

    def _queue_group(self, name: str) -> Group:
        group = self.group(name)
        if group.kind != "queue":
            raise GroupKindMismatch(group=name, kind=group.kind)
        return group

    async def delete(self, name: str) -> None:
        """The caller holds the name's lock, and has made sure that nobody uses the group."""
        group_id, key = self.group(name).id, group_key(name)
        while self._table.names.get(group_id) is not None:
            if await self._view.commit([self._view.expected(key)], [Delete(key)]):
                return

    async def _create(self, name: str, kind: GroupKind, ordering: Ordering) -> Group:
        """The group of this name: another process may have created it at the same moment, and differently."""
        group_id = new_group_id(name, await self._ids.take())
        group = Group(id=group_id, name=name, kind=kind, ordering=ordering, created_at_ms=self._clock.now_ms())
        while self.find(name) is None:
            if await self._store(group):
                break
        return self.group(name)

    async def _store(self, group: Group) -> bool:
        """False: the group has changed meanwhile, and the view shows it."""
        key = group_key(group.name)
        return await self._view.commit([self._view.expected(key)], [Put(key, msgspec.json.encode(group))])
