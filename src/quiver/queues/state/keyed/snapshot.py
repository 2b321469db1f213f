"""Lanes as bytes for a snapshot, in chunks of a few hundred lanes. Pure.

A chunk shows its lanes as they are when it is made, which may be after the position was noted. What is delivered in
between has its event after the snapshot. What is in no event yet counts as not delivered: if the event is never
written, the messages are read again.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

import msgspec

from quiver.queues.journal.replayed_times import brought_back
from quiver.queues.state.keyed.lane import HELD, LEVEL_BITS, Lane, LeasedRange
from quiver.queues.state.keyed.lane_table import LaneTable
from quiver.queues.state.keyed.recovery import COUNTED, EXPIRED, NO, LaneRecovery, Record
from quiver.queues.state.port import Run
from quiver.structures.interval_set import IntervalSet

_LANES = 500
_OFFSETS = 8_192
Item = TypeVar("Item")


class _Delivered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    start: int
    end: int
    record: Record


class _Chunk(msgspec.Struct, frozen=True, array_like=True):
    position: int | None = None
    """Only in the first one."""
    passed: list[Run] = []
    waiting: list[Run] = []
    waiting_offsets: bytes = b""
    delivered: list[_Delivered] = []
    consumers: dict[int, str] = {}


_decoder = msgspec.msgpack.Decoder(_Chunk)


def snapshot(table: LaneTable, position: int, passed: IntervalSet) -> Iterator[bytes]:
    unkeyed = [run for runs in table.unkeyed for run in runs]
    lanes, loose = list(table.lanes.values()), list(table.loose)
    yield msgspec.msgpack.encode(_Chunk(position))
    for runs in _slices(passed, _OFFSETS):
        yield msgspec.msgpack.encode(_Chunk(passed=runs))
    for runs in _slices(unkeyed, _OFFSETS):
        yield msgspec.msgpack.encode(_Chunk(waiting=runs))
    for some in _slices(chain(lanes, loose), _LANES):
        yield from _lane_chunks(some)


def restored(chunks: Sequence[bytes], ahead_ms: int = 0) -> LaneRecovery:
    recovery = LaneRecovery(0)
    for chunk in map(_decoder.decode, chunks):
        if chunk.position is not None:
            recovery.position = chunk.position
        recovery.delivered += chunk.passed
        recovery.waiting += chunk.waiting
        offsets = array("q", chunk.waiting_offsets)
        recovery.waiting += [(offset, offset + 1) for offset in offsets]
        recovery.consumers |= chunk.consumers
        for delivered in chunk.delivered:
            record = _brought_back(delivered.record, ahead_ms) if ahead_ms else delivered.record
            for offset in range(delivered.start, delivered.end):
                recovery.records[offset] = record
    return recovery


def _lane_chunks(lanes: Sequence[Lane]) -> Iterator[bytes]:
    """Most lanes are small, but one may have very many waiting."""
    delivered: list[_Delivered] = []
    waiting: list[Run] = []
    offsets = array("q")
    consumers: dict[int, str] = {}
    for lane in lanes:
        for part in lane.ranges():
            if part.is_unwritten:
                waiting.append((part.start, part.end))
                continue
            delivered.append(_Delivered(part.start, part.end, _record(lane, part)))
            if part.lease is not None:
                consumers[part.lease.id] = part.lease.consumer
        offsets.extend(place >> LEVEL_BITS for place in lane.waiting())
    for at in range(_OFFSETS, len(offsets), _OFFSETS):
        yield msgspec.msgpack.encode(_Chunk(waiting_offsets=offsets[at : at + _OFFSETS].tobytes()))
    first = offsets[:_OFFSETS].tobytes()
    yield msgspec.msgpack.encode(
        _Chunk(waiting=waiting, waiting_offsets=first, delivered=delivered, consumers=consumers)
    )


def _record(lane: Lane, part: LeasedRange) -> Record:
    lease = 0 if part.lease is None else part.lease.id
    expiry = NO
    if lease and lane.state != HELD:
        expiry = COUNTED if part.is_expired else EXPIRED
    return Record(
        part.level,
        part.attempts,
        part.first_ms,
        part.error,
        lane.key,
        lease,
        lane.deadline_ms,
        part.due_ms,
        expiry,
    )


def _brought_back(record: Record, ahead_ms: int) -> Record:
    return msgspec.structs.replace(
        record,
        deadline_ms=brought_back(record.deadline_ms, ahead_ms),
        due_ms=brought_back(record.due_ms, ahead_ms),
    )


def _slices(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
