"""All groups: their members, offsets and settings. Pure: events in, state out."""

from collections.abc import Iterator

import msgspec

from quiver.groups.events import (
    Committed,
    Event,
    GroupCreated,
    GroupDeleted,
    GroupKind,
    GroupSettings,
    MembershipChanged,
    OffsetsCommitted,
    OffsetsForgotten,
    SettingsChanged,
)
from quiver.groups.state import Membership
from quiver.model.queue import Ordering
from quiver.model.topic_partition import TopicPartition

_TRANSACTIONS_REMEMBERED = 1_000


class Group(msgspec.Struct, kw_only=True):
    created_at_ms: int
    id: int = 0
    """Never given twice: a group that is made anew is another one."""
    kind: GroupKind = "stream"
    ordering: Ordering = "none"
    membership: Membership = msgspec.field(default_factory=Membership)
    offsets: dict[TopicPartition, Committed] = msgspec.field(default_factory=dict)
    settings: GroupSettings = GroupSettings()
    changed_at_ms: int = 0
    """When the group was last used, in wall-clock time: what the expiry of its offsets counts from."""
    transactions: list[int] = msgspec.field(default_factory=list)
    """The last decisions whose offsets the group has."""

    def has_expired(self, now_ms: int) -> bool:
        """Whether the group may be forgotten: never while it has members, and never a queue group."""
        if self.membership.members or self.kind == "queue":
            return False
        return self.changed_at_ms + self.settings.offsets_retention_ms < now_ms


def _commit(group: Group, event: OffsetsCommitted) -> None:
    """The one place where a group is told where it is, in the order of the journal."""
    if event.transaction is not None:
        if event.transaction in group.transactions:
            return
        group.transactions = [*group.transactions[1 - _TRANSACTIONS_REMEMBERED :], event.transaction]
    for partition, committed in event.offsets:
        before = group.offsets.get(partition)
        version, decision = committed.version, event.transaction or 0
        if before is not None:
            if event.is_first or 0 < decision < before.decision:  # a later decision was carried out earlier
                continue
            version, decision = before.version + 1, max(decision, before.decision)
        group.offsets[partition] = msgspec.structs.replace(committed, version=version, decision=decision)
        group.changed_at_ms = max(group.changed_at_ms, committed.at_ms)


class _SavedGroup(msgspec.Struct):
    """A group in a snapshot: JSON has no tuples as keys."""

    name: str
    group: Group
    offsets: list[tuple[TopicPartition, Committed]]


class GroupTable:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.names: dict[int, str] = {}
        """By id."""
        self.last_id = 0

    def apply(self, event: Event) -> None:
        """What arrives for a group behind its deletion goes with it: commits do not wait for each other."""
        if isinstance(event, GroupCreated):
            self.last_id = max(self.last_id, event.id)
            self.groups[event.group] = Group(
                created_at_ms=event.at_ms,
                changed_at_ms=event.at_ms,
                id=event.id,
                kind=event.kind,
                ordering=event.ordering,
            )
            self.names[event.id] = event.group
        elif (group := self.groups.get(event.group)) is not None:
            self._change(group, event)

    def _change(self, group: Group, event: Event) -> None:
        match event:
            case MembershipChanged(_, membership, at_ms):
                group.membership, group.changed_at_ms = membership, at_ms
            case OffsetsCommitted():
                _commit(group, event)
            case OffsetsForgotten(_, topic_id):
                group.offsets = {p: c for p, c in group.offsets.items() if p.topic_id != topic_id}
            case SettingsChanged(_, settings):
                group.settings = settings
            case GroupDeleted(name):
                del self.groups[name]
                self.names.pop(group.id, None)

    def encode(self) -> Iterator[bytes]:
        """The last id, then a line a group; nothing may change until the last one is taken."""
        yield msgspec.json.encode(self.last_id) + b"\n"
        for name, group in self.groups.items():
            saved = _SavedGroup(name, msgspec.structs.replace(group, offsets={}), list(group.offsets.items()))
            yield msgspec.json.encode(saved) + b"\n"

    def restore(self, data: bytes) -> None:
        self.groups, self.names = {}, {}
        decoder = msgspec.json.Decoder(_SavedGroup)
        first, *lines = data.splitlines()
        self.last_id = msgspec.json.decode(first, type=int)
        for saved in map(decoder.decode, lines):
            saved.group.offsets = dict(saved.offsets)
            self.groups[saved.name] = saved.group
            self.names[saved.group.id] = saved.name
