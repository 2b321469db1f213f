"""Leases that expire or are ended, and messages that are settled by offset and not by their lease. Pure."""

from collections.abc import Iterator
from heapq import heappop
from typing import NamedTuple

from quiver.queues.journal.events import ReturnedRun
from quiver.queues.state.keyed.lane import HELD, NOTHING, PAUSED, READY, Lane, Lease, LeasedRange
from quiver.queues.state.keyed.lane_table import LaneTable
from quiver.queues.state.keyed.runs import merged_dead
from quiver.queues.state.port import LEASE_EXPIRED, Dead

_EXPIRE_AT_ONCE = 2_000


class Ended(NamedTuple):
    """What became of the messages of one lease."""

    lease: int
    runs: list[ReturnedRun]
    error: str
    dead: list[Dead]


class ExpiryRules(NamedTuple):
    is_counted: bool
    """Whether the delivery counts as an attempt."""
    max_attempts: int | None
    """None: nothing dies."""


def expire(table: LaneTable, now_ms: int, rules: ExpiryRules) -> Iterator[Ended]:
    """Ends leases that have expired, some thousands of messages at most."""
    done = 0
    while done < _EXPIRE_AT_ONCE and table.timers and table.timers[0][0] <= now_ms:
        time_ms, id = heappop(table.timers)
        lease = table.leases.get(id)
        if lease is None or lease.timer_ms != time_ms:
            continue
        lease.timer_ms = 0
        ended = Ended(id, [], LEASE_EXPIRED, [])
        for lane in held_lanes(lease):
            if lane.deadline_ms <= now_ms and done < _EXPIRE_AT_ONCE:
                done += _end(table, lane, lease, ended, rules)
            else:
                table.watch(lease, lane.deadline_ms)
        yield ended._replace(dead=merged_dead(ended.dead))


_CONSUMER_GONE = ExpiryRules(is_counted=True, max_attempts=None)


def end_leases(table: LaneTable, consumer: str) -> Iterator[Ended]:
    """Ends all leases of a consumer, as if they had expired long ago."""
    for lease in [lease for lease in table.leases.values() if lease.consumer == consumer]:
        ended = Ended(lease.id, [], LEASE_EXPIRED, [])
        for lane in held_lanes(lease):
            lane.deadline_ms = 0
            _end(table, lane, lease, ended, _CONSUMER_GONE)
        if ended.runs:
            yield ended


def settle_below(table: LaneTable, offset: int) -> int:
    """Removes everything below; returns how many messages that were."""
    gone = 0
    while (lane := table.unsettled.first) is not None and table.unsettled.lowest < offset:
        gone += _settle_lane(table, lane, offset)
    for index in (*table.ready, table.blocked):
        while (lane := index.first) is not None and index.lowest < offset:
            gone += _skip_waiting(table, lane, offset)
    for level, runs in enumerate(table.unkeyed):
        while runs and runs[0][0] < offset:
            start, end = runs.popleft()
            if end > offset:
                runs.appendleft((offset, end))
            table.available[level] -= min(end, offset) - start
            table.read_ahead -= min(end, offset) - start
            gone += min(end, offset) - start
    return gone


def held_lanes(lease: Lease) -> list[Lane]:
    """The lanes that the lease holds now."""
    first = (part.lane for part in lease.ranges if part.lease is lease and part.lane.head is part)
    return [lane for lane in first if lane.state == HELD]


def _end(table: LaneTable, lane: Lane, lease: Lease, ended: Ended, rules: ExpiryRules) -> int:
    """The lane becomes available again. If it counts, the delivery of its first message does; without a key, that of
    all."""
    head = lane.head
    assert head is not None, "the lane is held"
    counted = table.alone(head, head.start, head.start + 1) if rules.is_counted and lane.key is not None else head
    held = [part for part in lane.ranges() if part.lease is lease]
    for part in held:
        table.expired(part, lease)
    lane.state = PAUSED
    for part in held:
        if rules.is_counted and (lane.key is None or part is counted):
            part.attempts += 1
            part.is_expired, part.error = True, part.error or LEASE_EXPIRED
            if rules.max_attempts is not None and part.attempts >= rules.max_attempts:
                ended.dead.append(_dead(part))
                table.remove(part)
                continue
        ended.runs.append(ReturnedRun(part.start, part.end, part.attempts, 0))
    if lane.lease is lease:
        table.pause(lane, lane.deadline_ms)
    else:
        table.offer(lane)
    return len(held)


def _dead(part: LeasedRange) -> Dead:
    return Dead(part.start, part.end, part.level, part.attempts, part.first_ms, "max_attempts", part.error)


def _settle_lane(table: LaneTable, lane: Lane, offset: int) -> int:
    """Removes what was delivered."""
    gone, state = 0, lane.state
    table.unlist(lane)
    while lane.head is not None and lane.head.start < offset:
        part = lane.head
        if part.end > offset:
            part.split(offset)
        gone += part.count
        table.remove(part)
    if lane.lease is None:
        table.offer(lane)
    elif state != HELD:
        table.pause(lane, lane.deadline_ms)
    return gone


def _skip_waiting(table: LaneTable, lane: Lane, offset: int) -> int:
    was_ready = lane.state == READY
    if was_ready:
        table.withdraw(lane)
    else:
        table.blocked.remove(lane.front_offset)
    gone = 0
    while NOTHING < lane.front_offset < offset:
        gone += len(lane.take_waiting(1))
    table.read_ahead -= gone
    table.block(lane)
    if was_ready:
        table.offer(lane)
    return gone
