"""Finds the records of a delivery journal that concern one message, without reading all of it each time.

The journal is divided into chunks. For each one the index has the ranges of messages that its records are about, in a
few numbers; a look reads only the chunks that may concern the message. The index is made when a journal is first
looked at, and grows with it: nothing is done for it while messages are delivered.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from quiver.model.errors import CorruptData, InvalidFrame, OffsetOutOfRange
from quiver.model.limits import KIB
from quiver.queues.journal import events
from quiver.queues.journal.recorder import decode_record
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame, split_frames
from quiver.records.single import single_value
from quiver.storage.port import Log
from quiver.structures.offset_ranges import Range, merged

_CHUNK_BYTES = 64 * KIB
_MOST_RANGES = 128
_FIRST_GAP = 64
_NO_MORE = 2**63 - 1


class JournalRecord(NamedTuple):
    """The events of one record, and when it was written."""

    at_ms: int
    events: list[events.Event]


class JournalChunk(NamedTuple):
    start: int
    end: int
    """Offsets of the journal."""
    ranges: list[Range]
    """What its records are about, in order and roughly: messages in between may be included."""
    settled: dict[int, int]
    """By group: everything below was settled at once."""
    rewound: dict[int, int]
    """By group: everything from there on became unread. 0 if the group is gone."""
    is_full: bool
    """Nothing more is added to it."""


class FoundRecords(NamedTuple):
    records: list[JournalRecord]
    known_since_ms: int | None
    """When the first record was written, if the journal had others before it."""
    damage: list[str]


class JournalIndex:
    """Of one journal. Looks take turns."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._chunks: list[JournalChunk] = []
        self._damage: dict[int, str] = {}
        """By offset of the journal."""
        self._turn = asyncio.Lock()

    async def about(self, offset: int) -> FoundRecords:
        """The records that may concern a message, in order."""
        async with self._turn:
            await self._cover()
            records: list[JournalRecord] = []
            for chunk in list(_concerned(self._chunks, offset)):
                records += await self.records_between(chunk.start, chunk.end)
            return FoundRecords(records, await self._known_since_ms(), list(self._damage.values()))

    async def _cover(self) -> None:
        """Brings the index up to where the journal ends now."""
        start, end = self.log.start_offset, self.log.end_offset
        self._chunks = [chunk for chunk in self._chunks if chunk.end > start and chunk.is_full]
        self._damage = {at: problem for at, problem in self._damage.items() if at >= start}
        position = self._chunks[-1].end if self._chunks else start
        while position < end:
            data, following = await self._read(position)
            if data is None:
                position = following
                continue
            chunk, damage = await asyncio.to_thread(_indexed, data, position, end)
            self._damage |= damage
            self._chunks.append(chunk)
            position = chunk.end

    async def records_between(self, start: int, end: int) -> list[JournalRecord]:
        """Every record of a range of the journal that is still there."""
        found: list[JournalRecord] = []
        position = max(start, self.log.start_offset)
        while position < end:
            data, position = await self._read(position)
            if data is not None:
                decoded = await asyncio.to_thread(_decoded, data, end, {})
                found += [record for _, record in decoded]
                position = decoded[-1][0].next_offset if decoded else end
        return found

    async def _read(self, position: int) -> tuple[bytes | memoryview | None, int]:
        """The frames from a position on. None if there are none: then it says where to go on."""
        try:
            found = await self.log.read(position, max_bytes=_CHUNK_BYTES)
        except OffsetOutOfRange:  # the journal was shortened meanwhile
            return None, max(position + 1, self.log.start_offset)
        except CorruptData as damage:
            self._damage[position] = damage.message
            return None, max(position + 1, int(damage.details["next_offset"]))
        if found is None:
            return None, _NO_MORE
        try:
            return await found.read(), position
        finally:
            found.release()

    async def _known_since_ms(self) -> int | None:
        start = self.log.start_offset
        if start == 0:
            return None
        data, _ = await self._read(start)
        for _, header in split_frames(data or b""):
            return header.append_time_ms
        return self.log.last_append_time_ms


class JournalIndexes:
    """The indexes of the journals that were looked at last."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._by_log: dict[int, JournalIndex] = {}

    def of(self, log: Log) -> JournalIndex:
        index = self._by_log.pop(id(log), None) or JournalIndex(log)
        self._by_log[id(log)] = index  # it keeps the log alive: its id stays its own
        while len(self._by_log) > self._most:
            del self._by_log[next(iter(self._by_log))]
        return index


def _concerned(chunks: Iterable[JournalChunk], offset: int) -> Iterator[JournalChunk]:
    """Settlements of everything below an offset concern a message when they first pass it."""
    passed: dict[int, int] = {}
    for chunk in chunks:
        at = bisect_right(chunk.ranges, offset, key=lambda run: run[0]) - 1
        is_named = at >= 0 and offset < chunk.ranges[at][1]
        is_settled = any(passed.get(group, 0) <= offset < below for group, below in chunk.settled.items())
        is_rewound = any(first <= offset for first in chunk.rewound.values())
        passed = {} if is_named else passed | chunk.settled  # what is delivered again can be settled again
        for group, first in chunk.rewound.items():
            passed[group] = min(passed.get(group, 0), first)
        if is_named or is_settled or is_rewound:
            yield chunk


def _indexed(data: bytes | memoryview, position: int, log_end: int) -> tuple[JournalChunk, dict[int, str]]:
    """The chunk that begins at a position, and what is damaged in it."""
    ranges: list[Range] = []
    settled: dict[int, int] = {}
    rewound: dict[int, int] = {}
    damage: dict[int, str] = {}
    end = position
    for header, record in _decoded(data, log_end, damage):
        end = header.next_offset
        for event in record.events:
            match event:
                case events.Leased() | events.Returned():
                    ranges += [(run.start, run.end) for run in event.runs]
                case events.Acked() | events.Extended() | events.DeadLettersRemoved():
                    ranges += event.runs
                case events.Died():
                    ranges += [(dead.start, dead.end) for dead in event.dead]
                case events.SettledBelow():
                    settled[event.group] = max(event.offset, settled.get(event.group, 0))
                case events.Rewound():
                    rewound[event.group] = min(event.offset, rewound.get(event.group, event.offset))
                    settled[event.group] = max(event.offset, settled.get(event.group, 0))
                case events.Forgotten():
                    rewound[event.group] = 0
    end = max(end, position + 1)
    return JournalChunk(position, end, _rough(ranges), settled, rewound, end < log_end), damage


def _decoded(data: bytes | memoryview, end: int, damage: dict[int, str]) -> list[tuple[FrameHeader, JournalRecord]]:
    """Every record below an offset. After a damaged header nothing is read: the log says where it goes on."""
    found: list[tuple[FrameHeader, JournalRecord]] = []
    try:
        for position, header in split_frames(data):
            if header.base_offset >= end:
                break
            try:
                frame = bytes(data[position : position + header.frame_bytes])
                value = single_value(frame, header)
                values = open_frame(frame, header=header).values() if value is None else [value]
                records = [decode_record(record or b"") for record in values]
            except (InvalidFrame, msgspec.DecodeError) as error:
                damage[header.base_offset] = f"a record of the journal cannot be read: {error}"
                records = [[]]
            found += [(header, JournalRecord(header.append_time_ms, record)) for record in records]
    except InvalidFrame:
        pass
    return found


def _rough(ranges: list[Range]) -> list[Range]:
    """At most so many: those that are close together become one."""
    gap = _FIRST_GAP
    found = _joined(merged(ranges), gap)
    while len(found) > _MOST_RANGES:
        gap *= 4
        found = _joined(found, gap)
    return found


def _joined(ranges: list[Range], gap: int) -> list[Range]:
    found: list[Range] = []
    for start, stop in ranges:
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found
