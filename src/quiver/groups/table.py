"""All groups, of both kinds: id, kind, ordering and settings. Pure: events in, state out.

What stream groups remember beyond that (members, offsets) is in `quiver.streams`, what queue groups remember is with
each partition in `quiver.queues`; both name a group by its id.
"""

from quiver.groups.events import Event, Group, GroupGone, GroupStored


class GroupTable:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.names: dict[int, str] = {}
        """By id."""

    def apply(self, event: Event) -> None:
        """May be called again with the same event."""
        match event:
            case GroupStored(group):
                known = self.groups.get(group.name)
                if known is not None and known.id == group.id:  # the same object, for all who have it
                    known.settings, known.paused = group.settings, group.paused
                    return
                self._remove(group.name)
                self.groups[group.name] = group
                self.names[group.id] = group.name
            case GroupGone(name):
                self._remove(name)

    def _remove(self, name: str) -> None:
        group = self.groups.pop(name, None)
        if group is not None:
            del self.names[group.id]
