"""How leases end without a word of their holder, and how messages are settled from outside. Pure."""

from collections.abc import Iterator
from heapq import heappop
from typing import NamedTuple

from quiver.queues.journal.events import ReturnedRun
from quiver.queues.state.keyed.lane import HELD, NOTHING, PAUSED, READY, Lane, Lease, Stretch
from quiver.queues.state.keyed.lane_table import LaneBook
from quiver.queues.state.keyed.runs import merged_dead
from quiver.queues.state.port import Dead
from quiver.queues.state.unordered.in_flight_run import LEASE_EXPIRED

_EXPIRE_AT_ONCE = 2_000


class Ended(NamedTuple):
    """What became of the messages of one lease."""

    lease: int
    runs: list[ReturnedRun]
    error: str
    dead: list[Dead]


def expire(book: LaneBook, now_ms: int, max_attempts: int | None) -> Iterator[Ended]:
    """Ends what is over by now, some thousands of messages at the most. Without a limit of attempts nothing dies."""
    done = 0
    while done < _EXPIRE_AT_ONCE and book.timers and book.timers[0][0] <= now_ms:
        time_ms, id = heappop(book.timers)
        lease = book.leases.get(id)
        if lease is None or lease.timer_ms != time_ms:
            continue
        lease.timer_ms = 0
        ended = Ended(id, [], LEASE_EXPIRED, [])
        for lane in _held_lanes(lease):
            if lane.deadline_ms <= now_ms and done < _EXPIRE_AT_ONCE:
                done += _end(book, lane, lease, ended, max_attempts)
            else:
                book.watch(lease, lane.deadline_ms)
        yield ended._replace(dead=merged_dead(ended.dead))


def end_leases(book: LaneBook, consumer: str) -> Iterator[Ended]:
    """Ends all that a consumer holds, as if its time had come long ago."""
    for lease in [lease for lease in book.leases.values() if lease.consumer == consumer]:
        ended = Ended(lease.id, [], LEASE_EXPIRED, [])
        for lane in _held_lanes(lease):
            lane.deadline_ms = 0
            _end(book, lane, lease, ended, None)
        if ended.runs:
            yield ended


def settle_below(book: LaneBook, offset: int) -> int:
    """Takes out whatever is below; returns how many messages that were."""
    gone = 0
    while (lane := book.unsettled.first) is not None and book.unsettled.lowest < offset:
        gone += _settle_lane(book, lane, offset)
    for index in (*book.ready, book.blocked):
        while (lane := index.first) is not None and index.lowest < offset:
            gone += _skip_waiting(book, lane, offset)
    for level, runs in enumerate(book.unkeyed):
        while runs and runs[0][0] < offset:
            start, end = runs.popleft()
            if end > offset:
                runs.appendleft((offset, end))
            book.available[level] -= min(end, offset) - start
            book.read_ahead -= min(end, offset) - start
            gone += min(end, offset) - start
    return gone


def _held_lanes(lease: Lease) -> list[Lane]:
    first = (part.lane for part in lease.stretches if part.lease is lease and part.lane.head is part)
    return [lane for lane in first if lane.state == HELD]


def _end(book: LaneBook, lane: Lane, lease: Lease, ended: Ended, max_attempts: int | None) -> int:
    """The lane can be had again; its first message has had its attempt. Without a key all of them are first."""
    head = lane.head
    assert head is not None, "the lane is held"
    counted = head if lane.key is None else book.alone(head, head.start, head.start + 1)
    held = [part for part in lane.stretches() if part.lease is lease]
    for part in held:
        book.expired(part, lease)
    lane.state = PAUSED
    for part in held:
        if lane.key is None or part is counted:
            part.attempts += 1
            part.is_expired, part.error = True, part.error or LEASE_EXPIRED
            if max_attempts is not None and part.attempts >= max_attempts:
                ended.dead.append(_dead(part))
                book.remove(part)
                continue
        ended.runs.append(ReturnedRun(part.start, part.end, part.attempts, 0))
    if lane.lease is lease:
        book.pause(lane, lane.deadline_ms)
    else:
        book.offer(lane)
    return len(held)


def _dead(part: Stretch) -> Dead:
    return Dead(part.start, part.end, part.level, part.attempts, part.first_ms, "max_attempts", part.error)


def _settle_lane(book: LaneBook, lane: Lane, offset: int) -> int:
    """Of what was delivered."""
    gone, state = 0, lane.state
    book.unlist(lane)
    while lane.head is not None and lane.head.start < offset:
        part = lane.head
        if part.end > offset:
            part.split(offset)
        gone += part.count
        book.remove(part)
    if lane.lease is None:
        book.offer(lane)
    elif state != HELD:
        book.pause(lane, lane.deadline_ms)
    return gone


def _skip_waiting(book: LaneBook, lane: Lane, offset: int) -> int:
    was_ready = lane.state == READY
    if was_ready:
        book.withdraw(lane)
    else:
        book.blocked.remove(lane.front_offset)
    gone = 0
    while NOTHING < lane.front_offset < offset:
        gone += len(lane.take_waiting(1))
    book.read_ahead -= gone
    book.block(lane)
    if was_ready:
        book.offer(lane)
    return gone
