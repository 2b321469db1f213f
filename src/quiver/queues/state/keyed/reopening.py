"""Messages of a key that were settled become available again. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from quiver.queues.state.keyed.lane import HELD, Lane, LeasedRange
from quiver.queues.state.keyed.lane_table import LaneTable


class LeveledRun(NamedTuple):
    start: int
    end: int
    level: int


def is_held(table: LaneTable, key: bytes) -> bool:
    lane = table.lanes.get(key)
    return lane is not None and lane.state == HELD


def reopen(table: LaneTable, key: bytes, runs: Sequence[LeveledRun], now_ms: int) -> None:
    """Puts settled messages back into their lane, which nobody holds, as if they had been given back just now."""
    lane = table.lanes.get(key)
    if lane is None:
        lane = table.lanes[key] = Lane(key)
    else:
        table.unlist(lane)
    old = lane.ranges()
    if old:
        table.unsettled.remove(old[0].start)
    else:
        table.block(lane)
    new = [LeasedRange(start, end - start, level, 0, now_ms, lane) for start, end, level in runs]
    parts = sorted([*old, *new], key=lambda part: part.start)
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        part.next = following
    lane.head = head = parts[0]
    if head.lease is None:
        for part in old:  # whoever had an expired lease may not settle what comes after these
            table.leave(part)
            part.is_expired = False
    table.unsettled.add(head.start, lane)
    table.retrying += sum(part.count for part in new)
    if head.next is not None:
        table.trailing[lane] = None
    if head.lease is None:
        table.offer(lane)
    else:
        table.pause(lane, lane.deadline_ms)
