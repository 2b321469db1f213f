"""A snapshot of everything a partition's delivery journal is about, in chunks.

The outbox comes last: what dies while the chunks are made is then in the outbox at least, and maybe in both places,
but never in neither.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from quiver.model.queue import Ordering
from quiver.outbox.outbox import Outbox
from quiver.queues.journal.events import AcksPrepared
from quiver.queues.journal.replayed_times import ReplayedTimes
from quiver.queues.partition.queue_group import QueueGroup
from quiver.storage.snapshot_chunks import chunk, chunks
from quiver.structures.interval_set import IntervalSet


class RemovedChunk(msgspec.Struct, frozen=True, array_like=True, tag=0):
    numbers: list[int]


class GroupChunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The chunks of its state follow."""

    group: int
    ordering: Ordering
    in_offset_order: bool
    version: int = 0


class StateChunk(msgspec.Struct, frozen=True, array_like=True, tag=2):
    data: bytes


class OutboxChunk(msgspec.Struct, frozen=True, array_like=True, tag=3):
    content: Any
    dead: dict[int, int]
    """By group, the dead letters so far: those of the moves that the outbox has seen."""


class TimeChunk(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The time by the clock of leases when the snapshot was begun."""

    now_ms: int


class PreparedChunk(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Only if there are any."""

    acks: list[AcksPrepared]


class Restored(NamedTuple):
    removed: IntervalSet
    groups: dict[int, QueueGroup]
    outbox: Outbox
    prepared: dict[int, list[AcksPrepared]]


_EVER = 2**63
_decoder = msgspec.msgpack.Decoder(RemovedChunk | GroupChunk | StateChunk | OutboxChunk | TimeChunk | PreparedChunk)


def snapshot(
    removed: IntervalSet,
    groups: Mapping[int, QueueGroup],
    outbox: Outbox,
    prepared: Mapping[int, list[AcksPrepared]],
    *,
    now_ms: int,
) -> Iterator[bytes]:
    yield chunk(TimeChunk(now_ms))
    yield chunk(RemovedChunk(removed.encode()))
    for group in list(groups.values()):
        yield chunk(GroupChunk(group.id, group.ordering, group.in_offset_order, group.version))
        for part in group.state.snapshot():
            yield chunk(StateChunk(part))
    if prepared:
        yield chunk(PreparedChunk([acks for each in prepared.values() for acks in each]))
    yield chunk(OutboxChunk(outbox.image(), {group.id: group.dead_count for group in groups.values()}))


def restored(data: bytes, times: ReplayedTimes | None = None) -> Restored:
    """`times` is for brokers, which continue the leases; readers do not need it."""
    times = times or ReplayedTimes(_EVER)
    removed, outbox = IntervalSet(), Outbox()
    groups: dict[int, QueueGroup] = {}
    states: dict[int, list[bytes]] = {}
    held: list[bytes] = []
    prepared: dict[int, list[AcksPrepared]] = {}
    for stored in chunks(data):
        part = _decoder.decode(stored)
        match part:
            case TimeChunk():
                times.written_at(part.now_ms)
            case RemovedChunk():
                removed = IntervalSet.decode(part.numbers)
            case GroupChunk():
                groups[part.group] = QueueGroup(
                    part.group,
                    ordering=part.ordering,
                    start=0,
                    in_offset_order=part.in_offset_order,
                    version=part.version,
                )
                held = states[part.group] = []
            case StateChunk():
                held.append(part.data)
            case PreparedChunk():
                for acks in part.acks:
                    prepared.setdefault(acks.decision, []).append(acks)
            case OutboxChunk():
                outbox.restore(part.content)
                for group_id in part.dead.keys() & groups.keys():
                    groups[group_id].counters.dead = part.dead[group_id]
    for group_id, group in groups.items():
        group.state.restore(states.pop(group_id), times.ahead_ms)
    return Restored(removed, groups, outbox, prepared)
