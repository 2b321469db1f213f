"""Puts messages that were read from the log into their lanes. Pure."""

from collections.abc import Sequence

from quiver.queues.state.keyed.lane import LEVEL_BITS, LEVEL_MASK, NOTHING, READY, Lane
from quiver.queues.state.keyed.lane_table import LaneTable

_MANY = 8


def feed(table: LaneTable, start: int, level: int, keys: Sequence[bytes | None]) -> None:
    """Messages at consecutive offsets, after all that were fed before. This is the loop over single messages, for
    runs of several keys."""
    if len(keys) >= _MANY and keys[0] is not None and keys.count(keys[0]) == len(keys):
        _feed_lane(table, start, level, keys[0], len(keys))
        return
    lanes, available, ready = table.lanes, table.available, table.ready[level]
    for offset, key in enumerate(keys, start):
        if key is None:
            _wait_unkeyed(table, offset, level)
            continue
        lane = lanes.get(key)
        if lane is None:
            lanes[key] = lane = Lane(key, offset << LEVEL_BITS | level, lead=1, offered=1)
            available[level] += 1
            ready.add(offset, lane)
        elif lane.state == READY:
            lane.wait(offset << LEVEL_BITS | level)
            available[level] += lane.lead - lane.offered
            lane.offered = lane.lead
        elif lane.front == NOTHING:
            lane.wait(offset << LEVEL_BITS | level)
            table.blocked.add(offset, lane)
        else:
            lane.wait(offset << LEVEL_BITS | level)
    table.read_ahead += len(keys)


def _feed_lane(table: LaneTable, start: int, level: int, key: bytes, count: int) -> None:
    """Messages of one key."""
    lane = table.lanes.get(key)
    if lane is None:
        lane = table.lanes[key] = Lane(key)
        lane.wait_together(start, count, level)
        table.ready[level].add(start, lane)
    elif lane.state != READY and lane.front == NOTHING:
        lane.wait_together(start, count, level)
        table.blocked.add(start, lane)
    else:
        lane.wait_together(start, count, level)
    if lane.state == READY:
        first = lane.front & LEVEL_MASK
        table.available[first] += lane.lead - lane.offered
        lane.offered = lane.lead
    table.read_ahead += count


def _wait_unkeyed(table: LaneTable, offset: int, level: int) -> None:
    runs = table.unkeyed[level]
    if runs and runs[-1][1] == offset:
        runs[-1] = (runs[-1][0], offset + 1)
    else:
        runs.append((offset, offset + 1))
    table.available[level] += 1
