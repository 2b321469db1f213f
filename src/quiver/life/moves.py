"""Follows a message from one log to another: where a move took it, and where it came from."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from quiver.delays.events import CODEC, Left, MoveContent
from quiver.delays.partition.partition_delays import PartitionDelays
from quiver.delays.partition.schedule_log import read_rows
from quiver.life.log_frames import find_frame
from quiver.life.stored_message import LookedUp
from quiver.model.errors import InvalidFrame
from quiver.model.limits import MIB, SEQUENCE_LIMIT
from quiver.outbox.outbox import Move, Target
from quiver.partition.partition import Partition
from quiver.queues.journal.events import DeadLetterOrigin, DeadLettersRemoved
from quiver.queues.journal.recorder import decode_record
from quiver.queues.state.port import Run
from quiver.records.columns import OFFSET_DELTA
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame
from quiver.storage.port import Log

_SEARCHED_BYTES = 16 * MIB
_CLOCK_SLACK_MS = 1_000

T = TypeVar("T")


class Moved(NamedTuple):
    """A message as the target of its move knows it."""

    mover: int
    sequence: int
    since_ms: int
    """It was moved then, or later."""


class DelayedOrigin(NamedTuple):
    id: int
    scheduled_ms: int
    """When the broker took it."""
    deliver_at_ms: int | None


async def arrived_at(target: Partition, moved: Moved) -> int | None:
    """The offset that a moved message has in its target; None if it is not there (yet), or was removed since."""
    log, end = target.log, target.committed.high_watermark

    def choose(data: bytes | memoryview, position: int, header: FrameHeader) -> int | None:
        if header.producer_id != moved.mover or header.columns & OFFSET_DELTA.bit:
            return None
        place = (moved.sequence - header.base_sequence) % SEQUENCE_LIMIT
        return header.base_offset + place if place < header.record_count else None

    start = await log.offset_for_time(moved.since_ms - _CLOCK_SLACK_MS)
    return await find_frame(log, start, choose, end=end, max_bytes=_SEARCHED_BYTES)


class Removed(NamedTuple):
    """A dead letter that was redriven or purged."""

    at_ms: int
    offset: int
    """It had among the dead letters."""
    origin: DeadLetterOrigin | None
    move: Move | None
    """None: it was purged."""
    place: int = 0
    """In the move."""


async def redriven_from(journal: Log, target: Target, looked_up: LookedUp) -> Removed | None:
    """The dead letter that a redrive has brought back as this message."""

    def choose(data: bytes | memoryview, position: int, header: FrameHeader) -> Removed | None:
        for event in _removals(data, position, header):
            for move in event.moves:
                place = _place_in(move, looked_up) if move.target == target else None
                if place is not None:
                    offset = _offset_at(_runs(move), place)
                    return None if offset is None else _removed(event, header.append_time_ms, offset)
        return None

    return await _last_before(journal, looked_up, choose)


async def removed_again(journal: Log, origin: DeadLetterOrigin, since_ms: int) -> Removed | None:
    """How the dead letter of a message and a group was redriven or purged; None if it was not."""

    def choose(data: bytes | memoryview, position: int, header: FrameHeader) -> Removed | None:
        for event in _removals(data, position, header):
            if origin in event.origins:
                offset = _offset_at(event.runs, event.origins.index(origin))
                return None if offset is None else _removed(event, header.append_time_ms, offset)
        return None

    start = await journal.offset_for_time(since_ms - _CLOCK_SLACK_MS)
    return await find_frame(journal, start, choose, end=journal.end_offset, max_bytes=_SEARCHED_BYTES)


def _removed(event: DeadLettersRemoved, at_ms: int, offset: int) -> Removed:
    place = _place_of(event.runs, offset)
    origin = event.origins[place] if place is not None and place < len(event.origins) else None
    for move in event.moves:
        in_move = _place_of(_runs(move), offset)
        if in_move is not None:
            return Removed(at_ms, offset, origin, move, in_move)
    return Removed(at_ms, offset, origin, None)


async def delayed_from(delays: PartitionDelays, looked_up: LookedUp) -> DelayedOrigin | None:
    """The delayed message that became this one, as long as the journal and the schedule log have it."""

    def choose(data: bytes | memoryview, position: int, header: FrameHeader) -> tuple[int, int] | None:
        for record in _records(data, position, header):
            event = CODEC.decode(record)
            if isinstance(event, Left):
                for move in event.moves:
                    place = _place_in(move, looked_up)
                    if place is not None:
                        content = MoveContent.unpack(move.content)
                        return int(content.ids[place]), int(content.times_ms[place])
        return None

    found = await _last_before(delays.timers_log, looked_up, choose)
    if found is None:
        return None
    id, at_ms = found
    rows, _ = await read_rows(delays.schedule.log, [id])
    row = rows.get(id)
    if row is None or row.timestamp_ms != looked_up.row.message.timestamp_ms:
        return None
    return DelayedOrigin(id, row.scheduled_ms, row.deliver_at_ms if at_ms < 0 else at_ms)


async def _last_before(journal: Log, looked_up: LookedUp, choose: Callable[..., T | None]) -> T | None:
    """A move is in the journal before its messages are in their target: not long before, unless it was repeated."""
    at_ms = looked_up.header.append_time_ms
    for back_ms in (_CLOCK_SLACK_MS, 60 * _CLOCK_SLACK_MS, at_ms):
        start = await journal.offset_for_time(at_ms - back_ms)
        found = await find_frame(journal, start, choose, end=journal.end_offset, max_bytes=_SEARCHED_BYTES)
        if found is not None:
            return found
    return None


def _records(data: bytes | memoryview, position: int, header: FrameHeader) -> list[bytes]:
    try:
        return [record or b"" for record in open_frame(data, position, header=header).values()]
    except InvalidFrame:
        return []


def _removals(data: bytes | memoryview, position: int, header: FrameHeader) -> list[DeadLettersRemoved]:
    records = _records(data, position, header)
    return [event for record in records for event in decode_record(record) if isinstance(event, DeadLettersRemoved)]


def _runs(move: Move) -> list[Run]:
    return msgspec.convert(move.content, list[Run])


def _place_in(move: Move, looked_up: LookedUp) -> int | None:
    place = (looked_up.sequence - move.sequence) % SEQUENCE_LIMIT
    return place if place < move.count else None


def _offset_at(runs: list[Run], place: int) -> int | None:
    for start, end in runs:
        if place < end - start:
            return start + place
        place -= end - start
    return None


def _place_of(runs: list[Run], offset: int) -> int | None:
    place = 0
    for start, end in runs:
        if start <= offset < end:
            return place + offset - start
        place += end - start
    return None
