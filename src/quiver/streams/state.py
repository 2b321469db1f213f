"""What stream groups remember: members and committed offsets, by group id. Pure: events in, state out."""

from collections.abc import Collection, Iterator

import msgspec

from quiver.model.names import TopicPartition
from quiver.streams.events import (
    Committed,
    Event,
    MembershipChanged,
    OffsetsCommitted,
    OffsetsForgotten,
    OffsetsPrepared,
    OffsetsReleased,
)
from quiver.streams.membership import Membership

_TRANSACTIONS_REMEMBERED = 1_000


class StreamGroup(msgspec.Struct, kw_only=True):
    membership: Membership = msgspec.field(default_factory=Membership)
    offsets: dict[TopicPartition, Committed] = msgspec.field(default_factory=dict)
    transactions: list[int] = msgspec.field(default_factory=list)
    """The last decisions whose offsets the group has applied."""
    prepared: dict[int, list[tuple[TopicPartition, Committed]]] = msgspec.field(default_factory=dict)
    """By decision: offsets of transactions that another worker is deciding."""
    changed_at_ms: int = 0
    """When the group was last used, in wall-clock time: the expiry of its offsets counts from here."""

    @property
    def is_fresh(self) -> bool:
        """Whether there is nothing to remember yet."""
        return self.changed_at_ms == 0 and not self.transactions and not self.prepared

    def has_expired(self, now_ms: int, *, created_at_ms: int, retention_ms: int) -> bool:
        """Whether the group may be forgotten: never while it has members, or part of a transaction."""
        is_used = self.membership.members or self.prepared
        return not is_used and max(created_at_ms, self.changed_at_ms) + retention_ms < now_ms

    def commit(self, event: OffsetsCommitted) -> None:
        """The one place where a group's committed positions change, in the order of the journal."""
        if event.transaction is not None:
            self.prepared.pop(event.transaction, None)
            if event.transaction in self.transactions:
                return
            self.transactions = [*self.transactions[1 - _TRANSACTIONS_REMEMBERED :], event.transaction]
        for partition, committed in event.offsets:
            before = self.offsets.get(partition)
            version, decision = committed.version, event.transaction or 0
            if before is not None:
                if event.is_first or 0 < decision < before.decision:  # a later decision was applied first
                    continue
                version, decision = before.version + 1, max(decision, before.decision)
            self.offsets[partition] = msgspec.structs.replace(committed, version=version, decision=decision)
            self.changed_at_ms = max(self.changed_at_ms, committed.at_ms)


class _SavedGroup(msgspec.Struct):
    """A group in a snapshot: JSON has no tuples as keys."""

    id: int
    group: StreamGroup
    offsets: list[tuple[TopicPartition, Committed]]


class StreamTable:
    def __init__(self) -> None:
        self.groups: dict[int, StreamGroup] = {}

    def group(self, group_id: int) -> StreamGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = StreamGroup()
        return group

    def apply(self, event: Event) -> None:
        group = self.group(event.group_id)
        match event:
            case MembershipChanged(_, membership, at_ms):
                group.membership, group.changed_at_ms = membership, at_ms
            case OffsetsCommitted():
                group.commit(event)
            case OffsetsPrepared(_, offsets, decision):
                group.prepared[decision] = offsets
            case OffsetsReleased(_, decision):
                group.prepared.pop(decision, None)
            case OffsetsForgotten(_, topic_id):
                group.offsets = {p: c for p, c in group.offsets.items() if p.topic_id != topic_id}

    def keep(self, group_ids: Collection[int]) -> None:
        """Forgets all other groups."""
        self.groups = {group_id: group for group_id, group in self.groups.items() if group_id in group_ids}

    def snapshot(self) -> Iterator[bytes]:
        """A line per group. Nothing may change until the last line is taken."""
        for group_id, group in list(self.groups.items()):  # a look at a group that is not there yet adds it
            if not group.is_fresh:
                saved = _SavedGroup(group_id, msgspec.structs.replace(group, offsets={}), list(group.offsets.items()))
                yield msgspec.json.encode(saved) + b"\n"

    def restore(self, data: bytes) -> None:
        self.groups = {}
        decoder = msgspec.json.Decoder(_SavedGroup)
        for saved in map(decoder.decode, data.splitlines()):
            saved.group.offsets = dict(saved.offsets)
            self.groups[saved.id] = saved.group
