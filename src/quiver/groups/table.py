"""All groups, of both kinds: id, kind, ordering and settings. Pure: events in, state out.

What stream groups remember beyond that (members, offsets) is in `quiver.streams`, what queue groups remember is with
each partition in `quiver.queues`; both name a group by its id.
"""

from collections.abc import Iterator

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
from quiver.groups.settings import GroupSettings
from quiver.model.queue import Ordering, Pause


class Group(msgspec.Struct, kw_only=True):
    id: int
    """Never used twice: a group that is created again under the same name gets another id."""
    name: str
    kind: GroupKind
    ordering: Ordering = "none"
    created_at_ms: int
    settings: GroupSettings = GroupSettings()
    paused: dict[int, Pause] = {}
    """By topic id: where a queue group gets nothing."""


class GroupTable:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.names: dict[int, str] = {}
        """By id."""
        self.last_id = 0

    def apply(self, event: Event) -> None:
        if isinstance(event, GroupCreated):
            self._add(
                Group(
                    id=event.id,
                    name=event.group,
                    kind=event.kind,
                    ordering=event.ordering,
                    created_at_ms=event.at_ms,
                )
            )
            return
        group = self.groups[event.group]
        match event:
            case SettingsChanged(_, settings):
                group.settings = settings
            case QueuePaused(_, topic_id, pause):
                group.paused = {**group.paused, topic_id: pause}
            case QueueResumed(_, topic_id):
                group.paused = {id: pause for id, pause in group.paused.items() if id != topic_id}
            case GroupDeleted(name):
                del self.groups[name]
                del self.names[group.id]

    def snapshot(self) -> Iterator[bytes]:
        """The last id, then a line per group. Nothing may change until the last line is taken."""
        yield msgspec.json.encode(self.last_id) + b"\n"
        for group in self.groups.values():
            yield msgspec.json.encode(group) + b"\n"

    def restore(self, data: bytes) -> None:
        self.groups, self.names = {}, {}
        decoder = msgspec.json.Decoder(Group)
        first, *lines = data.splitlines()
        for group in map(decoder.decode, lines):
            self._add(group)
        self.last_id = msgspec.json.decode(first, type=int)

    def _add(self, group: Group) -> None:
        self.groups[group.name] = group
        self.names[group.id] = group.name
        self.last_id = max(self.last_id, group.id)
