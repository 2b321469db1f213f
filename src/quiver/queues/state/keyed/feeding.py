"""Messages that were read from the log find their lanes. Pure."""

from collections.abc import Sequence

from quiver.queues.state.keyed.lane import LEVEL_BITS, NOTHING, READY, Lane
from quiver.queues.state.keyed.lane_table import LaneBook


def feed(book: LaneBook, start: int, level: int, keys: Sequence[bytes | None]) -> None:
    """Messages at consecutive offsets, behind all that were fed before. This is the loop over single messages."""
    lanes, available, ready = book.lanes, book.available, book.ready[level]
    for offset, key in enumerate(keys, start):
        if key is None:
            _wait_unkeyed(book, offset, level)
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
            book.blocked.add(offset, lane)
        else:
            lane.wait(offset << LEVEL_BITS | level)
    book.read_ahead += len(keys)


def _wait_unkeyed(book: LaneBook, offset: int, level: int) -> None:
    runs = book.unkeyed[level]
    if runs and runs[-1][1] == offset:
        runs[-1] = (runs[-1][0], offset + 1)
    else:
        runs.append((offset, offset + 1))
    book.available[level] += 1
